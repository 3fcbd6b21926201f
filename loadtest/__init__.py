"""Loads a router as its users do: locust users, what they measure, a report, thresholds."""
