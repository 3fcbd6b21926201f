"""Clients that others wrote, unmodified, against a router and a worker as processes."""
