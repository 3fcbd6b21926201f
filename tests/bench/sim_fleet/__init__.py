"""A discrete-event simulation of a fleet that calls the router's own placement code.

Simulated: time, steps, prefill, KV room, prefixes in caches, forks and joins. Not simulated:
tokens, networks, failures. See `docs/placement.md` for what each number assumes.
"""
