"""A user that measures its requests and hands each to locust as one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random

import gevent
import grpc.experimental.gevent
import httpx
from locust import User

from loadtest.meter import Meter
from loadtest.sample import Outcome
from multiverse_client import ApiError, Client, Retry

GRPC = "LOADTEST_GRPC"  # names the gRPC address, where the router has one
KEY = "LOADTEST_KEY"  # an API key, where it wants one; or, with _FILE, the file that has it
PAUSE = "LOADTEST_PAUSE"  # mean seconds between two requests of a user

grpc.experimental.gevent.init_gevent()


class RefusedError(Exception):
    """The answer was an error status; the message says which."""


class ToldError(Exception):
    """The answer ended with an error event; the message is the event's."""


class MeasuredUser(User):
    """Asks, waits, and asks again. Subclasses have a task that uses `measured`."""

    abstract = True
    api = "native"

    def __init__(self, environment: object) -> None:
        super().__init__(environment)
        self.rng = Random()

    def wait_time(self) -> float:
        """Between requests: half to one and a half of the mean."""
        return float(os.environ.get(PAUSE, "10")) * self.rng.uniform(0.5, 1.5)

    @property
    def url(self) -> str:
        return str(self.host)

    @contextmanager
    def measured(self) -> Iterator[Meter]:
        """One request, however it ends; what it raises becomes its outcome."""
        meter = Meter(type(self).__name__, self.api, time.time() - begun())
        failure: Exception | None = None
        try:
            yield meter
        except gevent.GreenletExit:
            meter.sample.outcome = Outcome.UNFINISHED
            self._tell(meter, None)
            raise
        except ApiError as error:
            failure = error
            meter.sample.outcome = _outcome(error)
        except RefusedError as error:
            failure, meter.sample.outcome = error, Outcome.REFUSED
        except ToldError as error:
            failure, meter.sample.outcome = error, Outcome.TOLD
        except (OSError, ValueError, KeyError, httpx.HTTPError) as error:
            failure, meter.sample.outcome = error, Outcome.SILENT
        self._tell(meter, failure)

    def _tell(self, meter: Meter, failure: Exception | None) -> None:
        sample = meter.ended()
        sample.error = f"{type(failure).__name__}: {failure}" if failure else ""
        self.environment.events.request.fire(
            request_type=self.api,
            name=sample.user,
            response_time=sample.total_s * 1000,
            response_length=sample.tokens,
            exception=failure,
            context={"sample": sample},
        )


def _outcome(error: ApiError) -> Outcome:
    """A client was told when the router said so; a connection that breaks says nothing."""
    if type(error).__name__ in ("ConnectionFailed", "TimedOut"):
        return Outcome.SILENT
    return Outcome.TOLD if error.started else Outcome.REFUSED


@cache
def begun() -> float:
    """When this process began to ask."""
    return time.time()


@cache
def client(url: str) -> Client:
    """One for all users of an address: making one takes as long as many requests."""
    return Client(url, api_key=api_key(), retry=Retry(attempts=1))


def api_key() -> str | None:
    """None: the router wants none."""
    file = os.environ.get(f"{KEY}_FILE")
    return Path(file).read_text("utf-8").strip() if file else os.environ.get(KEY)
