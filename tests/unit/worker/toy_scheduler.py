"""A scheduler that runs the stages of branches without a model: slots, rows and retraction.

Each slot remembers what was "computed" into it, so that rows can be read back. The token that
follows a context is a hash of it: any mistake in a row shows in what is sampled.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch

from multiverse_shared.layout import positions
from multiverse_shared.tree import linearise
from multiverse_worker.contract import BranchId, Capability, EngineInfo, Finish, Ids, Start
from multiverse_worker.engines.sglang.branches import Branches
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.engines.sglang.prompts import PromptStore
from multiverse_worker.engines.sglang.slots import Slots
from multiverse_worker.engines.sglang.stage import Stage
from multiverse_worker.engines.sglang.traffic import Traffic
from multiverse_worker.tier.transfer import NO_TRANSFER, Transfer

VOCAB = 50
Content = tuple[int, int]  # id, position


class ToySlots(Slots):
    """What is in a slot is an id and a position."""

    token_bytes = 16

    def __init__(self, scheduler: ToyScheduler) -> None:
        self._scheduler = scheduler
        self.refuses = False

    def take(self, tokens: int) -> torch.Tensor | None:
        free = self._scheduler.free
        if not self._scheduler.room(tokens):
            return None
        return torch.tensor([free.pop() for _ in range(tokens)], dtype=torch.int64)

    def give(self, slots: torch.Tensor) -> None:
        self._scheduler.free += slots.tolist()

    def read(self, slots: torch.Tensor) -> bytes:
        held = [self._scheduler.content[slot] for slot in slots.tolist()]
        raw: bytes = torch.tensor(held, dtype=torch.int64).numpy().tobytes()
        return raw

    def write(self, raw: bytes, tokens: int, slots: torch.Tensor) -> bool:
        if self.refuses or len(raw) != 16 * tokens:
            return False
        held = torch.frombuffer(bytearray(raw), dtype=torch.int64).view(tokens, 2).tolist()
        for slot, (token, at) in zip(slots.tolist(), held[-len(slots) :], strict=True):
            self._scheduler.content[slot] = (token, at)
        return True


class ToyStore(PromptStore):
    """Each token of a text, under whose it is and the ids up to it."""

    def __init__(self, scheduler: ToyScheduler) -> None:
        self._scheduler = scheduler
        self.held: dict[tuple[str, Ids], Content] = {}
        self.kept: list[Ids] = []

    def keep(self, owner: str, ids: Ids, slots: torch.Tensor) -> int:
        before = len(self.held)
        for at, slot in enumerate(slots.tolist()):
            self.held.setdefault((owner, ids[: at + 1]), self._scheduler.content[slot])
        self.kept.append(ids)
        return len(self.held) - before

    def restore(self, owner: str, ids: Ids, first: int) -> torch.Tensor | None:
        stop = first
        while stop < len(ids) and (owner, ids[: stop + 1]) in self.held:
            stop += 1
        slots = self._scheduler.slots.take(stop - first) if stop > first else None
        if slots is None:
            return None
        for at, slot in zip(range(first, stop), slots.tolist(), strict=True):
            self._scheduler.content[slot] = self.held[owner, ids[: at + 1]]
        return slots


@dataclass(eq=False)
class Running:
    stage: Stage
    parent: Node
    slots: list[int]
    sampled: list[int] = field(default_factory=list)


class ToyScheduler:
    """`cells` slots; at most `width` stages run at once."""

    def __init__(
        self,
        cells: int,
        width: int = 8,
        seed: int = 0,
        transfer: Transfer = NO_TRANSFER,
        *,
        stores: bool = False,
    ) -> None:
        self.tree = KvTree()
        free = frozenset({Capability.FREE_POSITIONS})
        self.info = EngineInfo("toy", "0", "toy", 10_000, cells, VOCAB, free)
        self.slots = ToySlots(self)
        self.computed = 0  # tokens
        self.store = ToyStore(self)
        store = self.store if stores else None
        traffic = Traffic(transfer, self.tree, self.slots, self._row, store)
        self.branches = Branches(self.tree, self.info, cells, self._submit, self._withdraw, traffic)
        self.free = list(range(cells))
        self.content: dict[int, Content] = {}
        self._queue: list[Stage] = []
        self._running: list[Running] = []
        self._width = width
        self._rng = random.Random(seed)
        self.said: dict[BranchId, list[int]] = {}
        self.finishes: dict[BranchId, Finish] = {}
        self.steps = 0
        self._stalls = 0

    # -- what SGLang does ----------------------------------------------------------------------

    def start(self, start: Start) -> None:
        self.said[start.branch] = []
        self.branches.start(start)

    def _submit(self, stage: Stage) -> None:
        self._queue.append(stage)

    def _withdraw(self, stage: Stage) -> None:
        self._queue = [other for other in self._queue if other is not stage]
        for running in [r for r in self._running if r.stage is stage]:
            self._take_back(running)

    def _take_back(self, running: Running) -> None:
        self.free += running.slots
        self.tree.unlock(running.parent)
        self._running.remove(running)

    def room(self, tokens: int) -> bool:
        if len(self.free) < tokens:
            leave = self.branches.traffic.prompts.leave
            self.free += self.tree.evict(tokens - len(self.free), leave).tolist()
        return len(self.free) >= tokens

    def _row(self, stage: Stage) -> torch.Tensor:
        running = next(r for r in self._running if r.stage is stage)
        return torch.cat([self.tree.row(running.parent), torch.tensor(running.slots)])

    def step(self) -> None:
        self.steps += 1
        traffic, moving = self.branches.traffic, self.branches.moving
        traffic.pace.begin(decoding=bool(self._running))
        if moving:
            self.branches.move(lambda: self._queue)
        self._admit()
        self.branches.resume_parked(bool(self._queue))
        if not self._running and moving and traffic.tier:
            self.steps -= 1
            traffic.tier.wait(0.01)
        elif not self._running and self._queue:
            self._stalled()
        for running in list(self._running):
            if running in self._running:
                self._advance(running)
        self.branches.settle()
        self._collect()
        self.check()

    def _admit(self) -> None:
        self._queue.sort(key=self.branches.order)
        while self._queue and len(self._running) < self._width:
            stage = self._queue[0]
            stage.advance(self.tree)
            self.tree.lock(stage.parent)
            if not self.room(len(stage.ids) + 1):
                self.tree.unlock(stage.parent)
                return
            self._queue.pop(0)
            slots = [self.free.pop() for _ in stage.ids]
            self._write(slots, stage.ids, stage.start)
            self._running.append(Running(stage, stage.parent, slots))

    def _stalled(self) -> None:
        oldest = min(self.branches.order(stage) for stage in self._queue)
        if self.branches.pressure.relieve(oldest, self._queue, alone=True):
            self._stalls = 0
            return
        self._stalls += 1
        if self._stalls > 3 and not self.branches.pressure.relieve(
            oldest, self._queue, alone=True, desperate=True
        ):
            self.branches.give_up(oldest)

    def _write(self, slots: list[int], ids: Ids, start: int) -> None:
        self.computed += len(slots)
        for offset, (slot, token) in enumerate(zip(slots, ids, strict=True)):
            self.content[slot] = (token, start + offset)

    def _read(self, node: Node, slots: list[int]) -> list[Content]:
        return [self.content[slot] for slot in (*self.tree.row(node).tolist(), *slots)]

    def _advance(self, running: Running) -> None:
        stage = running.stage
        if not stage.decodes:
            self._end(running)
            return
        if running.sampled and not self._decode_room(running):
            return
        if running.sampled:
            slot = self.free.pop()
            at = stage.start + len(stage.ids) + len(running.sampled) - 1
            self.content[slot] = (running.sampled[-1], at)
            self.computed += 1
            running.slots.append(slot)
        token = hash(tuple(self._read(running.parent, running.slots))) % VOCAB
        running.sampled.append(token)
        if self.branches.sampled(stage, token):
            self._end(running)

    def _decode_room(self, running: Running) -> bool:
        """Room for one token more; the youngest running stages are taken back for it."""
        while not self.room(1):
            oldest = min(self.branches.order(r.stage) for r in self._running)
            if self.branches.pressure.relieve(oldest, self._queue, alone=len(self._running) == 1):
                continue
            if len(self._running) == 1:
                self._take_back(running)
                self.branches.dropped(running.stage)
                return False
            youngest = max(self._running, key=lambda r: self.branches.order(r.stage))
            self._retract(youngest)
            if youngest is running:
                return False
        return True

    def _retract(self, running: Running) -> None:
        """As SGLang: the same request again, its sampled tokens computed with its prompt."""
        stage = running.stage
        self._take_back(running)
        stage.ids += tuple(running.sampled)
        self._queue.append(stage)

    def _end(self, running: Running) -> None:
        stage, branch = running.stage, running.stage.branch
        ids = stage.ids
        if stage.decodes:
            held = len(running.slots)  # the last token has no KV, or may be dropped
            ids = (stage.ids + tuple(running.sampled))[:held]
            if branch.ending and branch.ending.dropped:
                held = min(held, len(stage.ids) + len(running.sampled) - branch.ending.dropped)
                self.free += running.slots[held:]
                ids, running.slots = ids[:held], running.slots[:held]
        slots = torch.tensor(running.slots, dtype=torch.int64)
        node, duplicates = self.tree.insert(running.parent, ids, stage.start, slots)
        self.free += duplicates.tolist()
        running.slots = []
        self.branches.computed(stage, node)
        self._take_back(running)

    # -- what a worker sees --------------------------------------------------------------------

    def _collect(self) -> None:
        updates, self.branches.updates = self.branches.updates, []
        for update in updates:
            self.said[update.branch] += update.ids
            if update.finish:
                assert update.branch not in self.finishes, "a branch ended twice"
                self.finishes[update.branch] = update.finish

    def finish(self, branch: BranchId, limit: int = 5000) -> Finish:
        while branch not in self.finishes:
            assert self.steps < limit, "no progress"
            self.step()
        return self.finishes[branch]

    def check(self) -> None:
        self.tree.check()
        running = sum(len(r.slots) for r in self._running)
        held = len(self.free) + running + self.tree.evictable + self.tree.locked
        assert held == self.info.kv_cells, "free + running + held != pool"
        for lease in self.branches.roster.leases:
            wanted = zip(linearise(lease.context), positions(lease.context), strict=True)
            assert self._read(lease.held, []) == list(wanted)

    def drop_all(self) -> None:
        self.branches.roster.end_leases()
        self.free += self.tree.evict(1 << 40).tolist()
