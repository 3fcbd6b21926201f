"""The values of the chart as classes: names, types, defaults and descriptions in one place."""
