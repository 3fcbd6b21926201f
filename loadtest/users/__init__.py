"""Users of a router: what each kind asks, and how often."""

from loadtest.users.abusive import BadInput, Leaver, SlowReader
from loadtest.users.answers import ForkHeavy, GrpcForks, LongPrefix, Replay
from loadtest.users.chat import Chat

USERS = [Chat, LongPrefix, ForkHeavy, GrpcForks, Replay, BadInput, Leaver, SlowReader]

__all__ = [
    "USERS",
    "BadInput",
    "Chat",
    "ForkHeavy",
    "GrpcForks",
    "Leaver",
    "LongPrefix",
    "Replay",
    "SlowReader",
]
