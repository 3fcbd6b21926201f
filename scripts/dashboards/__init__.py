"""Grafana dashboards: a module for each, with its panels."""
