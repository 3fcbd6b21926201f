"""All branches of one scheduler: commands in, SGLang requests out, updates back.

A branch is one SGLang request after another (its stages), queued oldest request first.
Each rank runs the same commands in the same order and so comes to the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from multiverse_shared.errors import (
    CapacityExceeded,
    InvalidRequest,
    MultiverseError,
    NotFound,
    RequestTooLarge,
)
from multiverse_shared.keys import KeyChain, after
from multiverse_shared.tree import Context, count, normalise
from multiverse_worker.checks import check_start, longest_tail
from multiverse_worker.contract import (
    BranchId,
    EngineInfo,
    Finish,
    FinishReason,
    Start,
    TopLogprobs,
    Update,
)
from multiverse_worker.engines.sglang.branch import Branch
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.engines.sglang.loading import Landing
from multiverse_worker.engines.sglang.pressure import Order, Pressure
from multiverse_worker.engines.sglang.roster import Roster
from multiverse_worker.engines.sglang.stage import Stage
from multiverse_worker.engines.sglang.traffic import Traffic

Told = tuple[tuple[float, ...], tuple[TopLogprobs, ...]]  # beside a token, as in an Update
NOTHING_TOLD: Told = ((), ())
YOUNGEST: Order = (1 << 62, 0)  # of requests that are no branches


class Branches:
    """`submit` and `withdraw` queue and end the SGLang request of a stage."""

    def __init__(
        self,
        tree: KvTree,
        info: EngineInfo,
        row_tokens: int,
        submit: Callable[[Stage], None],
        withdraw: Callable[[Stage], None],
        traffic: Traffic,
    ) -> None:
        self.tree = tree
        self.info = info
        self._row_tokens = row_tokens
        self._submit = submit
        self._withdraw = withdraw
        self.traffic = traffic
        self.moving: set[Branch] = set()  # that wait for the tier
        self.roster = Roster(tree)
        self.pressure = Pressure(self.roster, self._unload)
        self._computed: list[tuple[Stage, Node]] = []
        self.updates: list[Update] = []
        self.reused = 0  # tokens of loaded contexts that were found

    # -- commands ------------------------------------------------------------------------------

    def start(self, start: Start) -> None:
        try:
            base = self._base(start)
            context = normalise((*base, *start.context))
            if running := self.roster.get(start.branch):
                self._forget(running)  # one number ends once
                raise InvalidRequest("the branch runs already; use a new number", field="branch")
            check_start(start, context, self.info)
            self._check_row(start, context)
        except MultiverseError as error:
            self.updates.append(Update(start.branch, finish=_failed(error)))
            return
        root = KeyChain.root(self.info.namespace, start.salt)
        self._begin(self.roster.add(start, context, root))

    def abort(self, branch_id: BranchId) -> None:
        branch = self.roster.get(branch_id)
        if branch:
            self._retire(branch, Finish(FinishReason.ABORTED))

    def lose_stream(self, stream: int) -> None:
        for branch in self.roster:
            if branch.start.branch.stream == stream:
                self.abort(branch.start.branch)
        self.roster.leases.lose_stream(stream)

    def _base(self, start: Start) -> Context:
        if not start.base_key:
            return ()
        lease = self.roster.leases.by_key(start.base_key, start.branch.stream)
        if lease is None:
            raise NotFound("no lease on this base; send the context in full", field="base_key")
        return lease.context

    def _check_row(self, start: Start, context: Context) -> None:
        tokens = count(context) + start.max_tokens + longest_tail(start)
        if tokens > self._row_tokens:
            raise RequestTooLarge(
                f"the branch may hold {tokens} tokens with all its paths, SGLang's row holds "
                f"{self._row_tokens}; lower max_tokens or raise row_tokens",
                field="max_tokens",
            )

    # -- flow ----------------------------------------------------------------------------------

    def _begin(self, branch: Branch) -> None:
        branch.stages = branch.plan(self.tree, self.traffic.orders, self.traffic.prompts)
        self._go_on(branch, None)

    def _go_on(self, branch: Branch, node: Node | None) -> None:
        """Begin the next step of a branch, or end it. `node` is what came of the last one."""
        assert branch.stages is not None
        try:
            step = branch.stages.send(node)
        except StopIteration:
            self._leave(branch)
            return
        if not isinstance(step, Stage):
            branch.coming = step
            self.moving.add(branch)
            return
        if step.decodes or branch.ending:
            self._end_consumed(branch)
        branch.stage = step
        self._submit(step)

    def move(self, queued: Callable[[], Collection[Stage]]) -> None:
        """Go on with the branches that wait for the tier, oldest first, as far as they can.

        `queued` gives the stages that SGLang has not begun.
        """
        for branch in sorted(self.moving, key=lambda branch: branch.order):
            while branch.coming and self.traffic.receiving.settled(branch):
                coming, branch.coming = branch.coming, None
                node = self._land(branch, coming, queued) if isinstance(coming, Landing) else None
                self._go_on(branch, node)
            if branch.leaving:
                self._leave(branch)
            elif not branch.coming:
                self.moving.discard(branch)

    def _land(
        self, branch: Branch, landing: Landing, queued: Callable[[], Collection[Stage]]
    ) -> Node | None:
        def relieve() -> bool:
            return self.pressure.relieve(branch.order, queued(), alone=False)

        return self.traffic.receiving.land(branch, landing, relieve)

    def sampled(self, stage: Stage, token: int, told: Told = NOTHING_TOLD) -> bool:
        """A stage has sampled a token; whether the branch ends with it."""
        branch = stage.branch
        logprobs, top = told
        self.updates.append(Update(branch.start.branch, (token,), logprobs, top_logprobs=top))
        if branch.take(token):
            return True
        self.traffic.shipping.sampled(stage)
        return False

    def computed(self, stage: Stage, node: Node) -> None:
        """The request of a stage has ended, and `node` holds its tokens."""
        self.tree.lock(node)
        self._computed.append((stage, node))

    def dropped(self, stage: Stage) -> None:
        """SGLang has given up the request of a stage for want of memory, and freed it.

        If others hold memory they are older, and leave it in the end: the branch starts again
        behind them. If nobody does, it never fits.
        """
        branch = stage.branch
        if branch.ended or branch.stage is not stage:
            return
        branch.stage = None
        if self.pressure.others_hold(branch):
            self.pressure.park(branch)
        else:
            self.give_up(branch.order)

    def settle(self) -> None:
        """Go on with the branches whose stages have ended."""
        computed, self._computed = self._computed, []
        for stage, node in computed:
            if stage.branch.stage is stage:
                stage.branch.stage = None
                self._go_on(stage.branch, node)
            self.tree.unlock(node)

    def _end_consumed(self, branch: Branch) -> None:
        """The context is resident: what it was joined from is not needed any more."""
        for lease_id in branch.start.consumes:
            self.roster.release(lease_id, branch.start.branch.stream)

    def _leave(self, branch: Branch) -> None:
        """End a branch, once what others want of it has gone out."""
        branch.leaving = not self.traffic.shipping.ended(branch)
        if branch.leaving:
            self.moving.add(branch)
        else:
            self.moving.discard(branch)
            self._finish(branch)

    def _finish(self, branch: Branch) -> None:
        """Report the end; what the branch held last becomes a lease."""
        self._end_consumed(branch)
        start, ending, node = branch.start, branch.ending, branch.pins[-1]
        assert ending is not None
        context = normalise(branch.final_context)
        key = after(context, branch.root).end
        self.traffic.prompts.note(branch)
        self.tree.lock(node, lease=True)
        lease = self.roster.leases.grant(node, start, key, context)
        self._forget(branch)
        finish = Finish(
            ending.reason,
            ending.stop,
            ending.appended,
            lease.id,
            key,
            min(branch.reused, count(branch.context)),
            count(context),
        )
        self.reused += finish.reused_tokens
        self.updates.append(Update(start.branch, finish=finish))

    def _retire(self, branch: Branch, finish: Finish) -> None:
        """End a branch without a lease."""
        self._forget(branch)
        self.updates.append(Update(branch.start.branch, finish=finish))

    def _forget(self, branch: Branch) -> None:
        branch.ended = True
        self._unload(branch)
        self.traffic.shipping.drop(branch)
        self.roster.remove(branch)

    def _unload(self, branch: Branch) -> None:
        """Give up what the branch holds and computes."""
        if branch.stage:
            self._withdraw(branch.stage)
        if branch.stages:
            branch.stages.close()
        branch.stages = branch.stage = branch.coming = None
        branch.leaving = False
        self.moving.discard(branch)
        branch.unpin(self.tree)

    # -- order ---------------------------------------------------------------------------------

    def order(self, stage: Stage | None) -> Order:
        return stage.branch.order if stage else YOUNGEST

    def reset(self) -> None:
        """All contexts are about to be forgotten: nothing may hold one."""
        for branch in list(self.moving):
            self.pressure.park(branch)
        self.roster.end_leases()

    def resume_parked(self, waiting: bool) -> None:
        """Begin the oldest parked branch again, once no branch waits in SGLang's queue, or for
        the tier."""
        branch = self.pressure.next_parked
        if branch and not waiting and not self.moving:
            self._begin(branch)

    def give_up(self, order: Order) -> None:
        """The branch can't be served, though it has all the memory to itself."""
        error = CapacityExceeded("the KV pool is full and nothing can be taken from others")
        for branch in self.roster:
            if branch.order == order:
                self._retire(branch, _failed(error))

    def waiting(self, queued: Collection[Stage]) -> int:
        """Branches that wait, in SGLang's queue or before it."""
        return sum(branch.stage is None or branch.stage in queued for branch in self.roster)

    def __len__(self) -> int:
        return len(self.roster)


def _failed(error: MultiverseError) -> Finish:
    return Finish(FinishReason.FAILED, error=error)
