"""The limits as Redis keeps them: one script takes, one gives back; each is one atomic step.

Keys of a tenant (all in one slot of a cluster): a sorted set of places by the second until which
each is believed, a hash {level, at} for each bucket. The clock is the server's.
"""

from __future__ import annotations

from multiverse_shared.api_keys import Allowance

PREFIX = "multiverse:limits"
LIFETIME_S = 30  # of a place whose router says nothing more
BUCKET_S = 120  # of a bucket that nobody takes from: it is full by then

_LEVEL = f"""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local function level(key, most)
  local state = redis.call('HMGET', key, 'level', 'at')
  if not state[1] then return most end
  return math.min(most, tonumber(state[1]) + (now - tonumber(state[2])) * most / 60)
end
local function put(key, value)
  redis.call('HSET', key, 'level', tostring(value), 'at', tostring(now))
  redis.call('EXPIRE', key, {BUCKET_S})
end
"""

RESERVE = (
    _LEVEL
    + """
local count = #ARGV - 5
local places, requests, tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if places >= 0 and redis.call('ZCARD', KEYS[1]) + count > places then
  return {'concurrency', '1'}
end
local left = {}
local asked = {
  {KEYS[2], requests, count, 'requests'},
  {KEYS[3], tokens, tonumber(ARGV[4]), 'tokens'},
}
for _, ask in ipairs(asked) do
  if ask[2] >= 0 then
    local wanted = math.min(ask[3], ask[2])
    local rest = level(ask[1], ask[2]) - wanted
    if rest < 0 then return {ask[4], tostring(-rest * 60 / ask[2])} end
    left[ask[1]] = rest
  end
end
for key, rest in pairs(left) do put(key, rest) end
for index = 6, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[5], ARGV[index]) end
redis.call('EXPIRE', KEYS[1], ARGV[5])
return {}
"""
)
"""ARGV: limits (-1: none) of places, requests, tokens; tokens wanted; lifetime; ids."""

SETTLE = (
    _LEVEL
    + """
redis.call('ZREM', KEYS[1], ARGV[1])
local most = tonumber(ARGV[2])
if most >= 0 then
  put(KEYS[2], math.min(most, level(KEYS[2], most) + math.min(ARGV[3], most) - ARGV[4]))
end
"""
)
"""KEYS: places, tokens. ARGV: id; limit of tokens (-1: none); reserved; used."""

RENEW = """
local time = redis.call('TIME')
for index = 2, #ARGV do
  redis.call('ZADD', KEYS[1], time[1] + ARGV[1], ARGV[index])
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
"""
"""KEYS: places. ARGV: lifetime; ids."""


def keys_of(tenant: str) -> tuple[str, str, str]:
    """Places, requests, tokens."""
    base = f"{PREFIX}:{{{tenant}}}"
    return f"{base}:places", f"{base}:requests", f"{base}:tokens"


def numbers(allowance: Allowance) -> list[int]:
    """Limits as the scripts read them."""
    limits = (allowance.concurrency, allowance.requests, allowance.tokens)
    return [-1 if limit is None else limit for limit in limits]
