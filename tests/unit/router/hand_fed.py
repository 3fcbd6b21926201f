"""Links to workers that are played by hand: commands are read, updates are fed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.cache_watch import CacheWatch
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.fleet.link import WorkerLink
from multiverse_router.limits.admissions import Admissions
from multiverse_router.limits.local import LocalLimits
from multiverse_router.limits.places import Places
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest, Parallel, SamplingOptions
from multiverse_router.settings import RouterSettings
from multiverse_shared.dialect import Tag
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Text
from tests.unit.router.served import served_model, tokenizer


class HandFedLink(WorkerLink):
    """Connected from the start, to nobody."""

    def __init__(self, served: ServedModel | None = None, address: str = "nobody:1") -> None:
        super().__init__(address, RouterSettings())
        self._model = self._served = served or served_model()
        self.granted: set[str] = set()
        self.fleet = fleet_of(self)

    @property
    def sent(self) -> list[pb.RunRequest]:
        return list(self._commands)

    @property
    def starts(self) -> list[pb.Start]:
        return [command.start for command in self.sent if command.HasField("start")]

    @property
    def aborted(self) -> set[int]:
        return {command.abort.branch for command in self.sent if command.HasField("abort")}

    @property
    def released(self) -> set[str]:
        return {command.release.lease for command in self.sent if command.HasField("release")}

    async def commanded(self) -> None:
        """Wait for the next command."""
        await self._has_commands.wait()
        self._has_commands.clear()

    def take(self) -> list[pb.RunRequest]:
        """The commands that were not taken yet."""
        taken = list(self._commands)
        self._commands.clear()
        return taken

    def decoded(self, start: pb.Start, ids: Sequence[int]) -> None:
        """The branch decoded `ids` and goes on."""
        self._dispatch(pb.Update(branch=start.branch, ids=ids, logprobs=_logprobs(start, ids)))

    def ended(self, start: pb.Start, ids: Sequence[int], lease: str, **fields: object) -> None:
        """The branch decoded `ids`, the last of which ended it (or used up its tokens)."""
        stops = [list(stop.ids) for stop in start.stops]
        stop = stops.index([ids[-1]]) if ids and [ids[-1]] in stops else None
        reason = pb.FINISH_REASON_LENGTH if stop is None else pb.FINISH_REASON_STOP
        finish = {"reason": reason, "stop": stop or 0, "lease": lease, **fields}
        self.granted |= {lease} - {""}
        logprobs = _logprobs(start, ids)
        end = pb.Finish(**finish)
        self._dispatch(pb.Update(branch=start.branch, ids=ids, logprobs=logprobs, finish=end))

    def failed(self, start: pb.Start, code: str, message: str = "") -> None:
        finish = pb.Finish(reason=pb.FINISH_REASON_FAILED, code=code, message=message)
        self._dispatch(pb.Update(branch=start.branch, finish=finish))

    def lose(self) -> None:
        """The stream breaks."""
        self._lost()

    def come_back(self) -> None:
        """The worker is there again, and has nothing."""
        self._commands.clear()
        self._model = self._served
        self._cache.connected()
        self.stream += 1
        self._changed()


class Resting:
    """A discovery that has nothing to say."""

    async def watch(self) -> AsyncIterator[frozenset[str]]:
        await asyncio.Event().wait()
        yield frozenset()


def admissions(most: int) -> Admissions:
    """So many answers at once, and no other limits."""
    return Admissions(Places(most), LocalLimits())


def fleet_of(*links: HandFedLink, **settings: object) -> Fleet:
    """These workers are all there are; what loses its worker does not wait, if not told to."""
    fleet = Fleet(RouterSettings(**{"reroute_s": 0, **settings}), Resting())
    for link in links:
        fleet.add(link)
        link._changed = fleet.changed
        link._cache = CacheWatch(fleet.prefixes, link.address)
        link.fleet = fleet
    return fleet


def _logprobs(start: pb.Start, ids: Sequence[int]) -> list[float]:
    """What the worker says of tokens, if asked: as much below 0 as their ids are above."""
    return [-float(token) for token in ids] if start.sampling.logprobs else []


def tag(name: Tag) -> int:
    (token,) = served_model().grammar.tags[name]
    return token


def text(words: str) -> list[int]:
    return tokenizer().encode(words)


def plan(*outlines: str) -> list[int]:
    """The ids of a whole plan."""
    ids = [tag(Tag.BLOCK_OPEN), tag(Tag.PLAN_OPEN)]
    for outline in outlines:
        ids += [tag(Tag.OUTLINE_OPEN), *text(outline), tag(Tag.OUTLINE_CLOSE)]
    return [*ids, tag(Tag.PLAN_CLOSE)]


def path(words: str) -> list[int]:
    """The ids of the body of a path, to its end."""
    return [*text(words), tag(Tag.PATH_CLOSE)]


def request(
    limits: Limits | None = None,
    *,
    parallel: Parallel = Parallel.AUTO,
    deadline_s: float | None = None,
    logprobs: bool = False,
    stop: tuple[str, ...] = (),
) -> AnswerRequest:
    return AnswerRequest(
        id="r",
        model=served_model().name,
        model_digest=served_model().digest,
        prompt=(Text(tuple(text("prompt"))),),
        limits=limits or Limits(max_total_tokens=1000),
        parallel=parallel,
        sampling=SamplingOptions(seed=1, logprobs=logprobs),
        stop=stop,
        deadline_s=deadline_s,
    )
