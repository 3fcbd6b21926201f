"""For locust's own command: `locust -f loadtest/locustfile.py --host http://127.0.0.1:8000`."""

from loadtest.users import (
    BadInput,
    Chat,
    ForkHeavy,
    GrpcForks,
    Leaver,
    LongPrefix,
    Replay,
    SlowReader,
)

__all__ = [
    "BadInput",
    "Chat",
    "ForkHeavy",
    "GrpcForks",
    "Leaver",
    "LongPrefix",
    "Replay",
    "SlowReader",
]
