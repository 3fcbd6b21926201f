"""The registry of workers in Redis: what workers write and routers read.

A sorted set of addresses, by the second of the server's clock until which each is to be believed.
"""

from __future__ import annotations

KEY = "multiverse:workers"
EPOCH = "multiverse:workers:epoch"  # a new one says that everything before it was forgotten
LIFETIME_S = 6.0
BEAT_S = 2.0

BEAT = """
local now = redis.call('TIME')
redis.call('ZADD', KEYS[1], now[1] + now[2] / 1000000 + ARGV[2], ARGV[1])
"""
"""KEYS: the set. ARGV: an address, and for how many seconds it is to be believed."""

MEMBERS = """
local now = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. (now[1] + now[2] / 1000000))
redis.call('SET', KEYS[2], now[1] .. '.' .. now[2], 'NX')
local found = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(found, 1, redis.call('GET', KEYS[2]))
return found
"""
"""KEYS: the set, and the epoch. Returns the epoch and every address that is to be believed."""
