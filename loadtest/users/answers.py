"""Users of the native API, over HTTP and gRPC: forks, long prompts, trees of real answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

from locust import task

from loadtest import prompts
from loadtest.users.base import GRPC, MeasuredUser, client

MAX_TOKENS = 1500


class AnswerUser(MeasuredUser):
    """Streams the events of answers to `prompt`."""

    abstract = True
    prompt: Callable[[Random], str]

    @task
    def ask(self) -> None:
        text = type(self).prompt(self.rng)
        with self.measured() as meter:
            seed = self.rng.randrange(1 << 32)
            with client(self.url).stream(text, seed=seed, max_tokens=MAX_TOKENS) as events:
                for event in events:
                    meter.saw(event)


class ForkHeavy(AnswerUser):
    weight = 10
    prompt = staticmethod(prompts.forks)


class LongPrefix(AnswerUser):
    weight = 15
    prompt = staticmethod(prompts.long_prefix)


class Replay(AnswerUser):
    weight = 15
    prompt = staticmethod(prompts.replay)


class GrpcForks(AnswerUser):
    """Over gRPC where the router has it, else over HTTP."""

    weight = 15
    prompt = staticmethod(prompts.forks)
    api = "grpc"

    @property
    def url(self) -> str:
        address = os.environ.get(GRPC)
        return f"grpc://{address}" if address else super().url
