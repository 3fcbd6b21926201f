"""Tests of this folder run the router with real neighbours."""
