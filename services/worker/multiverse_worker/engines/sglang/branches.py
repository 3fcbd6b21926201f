"""All branches of one scheduler: commands in, SGLang requests out, updates back.

Policy: a branch is one SGLang request after another (its stages), queued oldest request first.
When memory runs out, ordinary cache goes first; if the oldest still can't go on, the youngest
request gives up its leases and what its waiting branches hold (it is computed again later).
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
    RequestId,
    Start,
    TopLogprobs,
    Update,
)
from multiverse_worker.engines.sglang.branch import Branch, Stage
from multiverse_worker.engines.sglang.kv_tree import KvTree, Node
from multiverse_worker.leases import Lease, LeaseBook

Order = tuple[int, int]
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
    ) -> None:
        self.tree = tree
        self.info = info
        self._row_tokens = row_tokens
        self._submit = submit
        self._withdraw = withdraw
        self._root = KeyChain.root(info.namespace)
        self.now = 0.0
        self.leases: LeaseBook[Node] = LeaseBook(lambda: self.now)
        self._branches: dict[BranchId, Branch] = {}
        self._ages: dict[RequestId, int] = {}
        self._arrivals = 0
        self._computed: list[tuple[Stage, Node]] = []
        self.updates: list[Update] = []
        self.revoked = 0  # leases taken back for want of memory
        self.reused = 0  # tokens of loaded contexts that were found
        self.parked = 0  # branches put back to the beginning for want of memory

    # -- commands ------------------------------------------------------------------------------

    def start(self, start: Start) -> None:
        try:
            base = self._base(start)
            context = normalise((*base, *start.context))
            if start.branch in self._branches:
                self._forget(self._branches[start.branch])  # one number ends once
                raise InvalidRequest("the branch runs already; use a new number", field="branch")
            check_start(start, context, self.info)
            self._check_row(start, context)
        except MultiverseError as error:
            self.updates.append(Update(start.branch, finish=_failed(error)))
            return
        self._arrivals += 1
        age = self._ages.setdefault(start.owner, self._arrivals)
        branch = Branch(start, context, (age, self._arrivals))
        self._branches[start.branch] = branch
        self._begin(branch)

    def abort(self, branch_id: BranchId) -> None:
        branch = self._branches.get(branch_id)
        if branch:
            self._retire(branch, Finish(FinishReason.ABORTED))

    def release(self, lease_id: str, stream: int) -> None:
        lease = self.leases.end(lease_id, stream)
        if lease:
            self.tree.unlock(lease.held, lease=True)

    def lose_stream(self, stream: int) -> None:
        for branch_id in [b for b in self._branches if b.stream == stream]:
            self.abort(branch_id)
        self.leases.lose_stream(stream)

    def tick(self, now: float) -> None:
        self.now = now
        live = {branch.start.owner for branch in self._branches.values()}
        for lease in self.leases.expired(live):
            self.tree.unlock(lease.held, lease=True)
        if len(self._ages) > 64 + 2 * (len(live) + len(self.leases)):
            live.update(lease.request for lease in self.leases)
            self._ages = {request: age for request, age in self._ages.items() if request in live}

    def end_leases(self) -> None:
        for lease in self.leases:
            self.release(lease.id, lease.request.stream)

    def _base(self, start: Start) -> Context:
        if not start.base_key:
            return ()
        lease = self.leases.by_key(start.base_key, start.branch.stream)
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
        branch.stages = branch.plan(self.tree)
        self._go_on(branch, None)

    def _go_on(self, branch: Branch, node: Node | None) -> None:
        """Queue the next stage of a branch, or end it. `node` holds what the last one computed."""
        assert branch.stages is not None
        try:
            stage = branch.stages.send(node) if node else next(branch.stages)
        except StopIteration:
            self._finish(branch)
            return
        if stage.decodes or branch.ending:
            self._end_consumed(branch)
        branch.stage = stage
        self._submit(stage)

    def sampled(self, stage: Stage, token: int, told: Told = NOTHING_TOLD) -> bool:
        """A stage has sampled a token; whether the branch ends with it."""
        branch = stage.branch
        logprobs, top = told
        self.updates.append(Update(branch.start.branch, (token,), logprobs, top_logprobs=top))
        return branch.take(token) is not None

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
        others = any(other.stages for other in self._branches.values() if other is not branch)
        if others or len(self.leases):
            self.parked += 1
            self._unload(branch)
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
            self.release(lease_id, branch.start.branch.stream)

    def _finish(self, branch: Branch) -> None:
        """Report the end; what the branch held last becomes a lease."""
        self._end_consumed(branch)
        start, ending, node = branch.start, branch.ending, branch.pins[-1]
        assert ending is not None
        context = normalise(branch.final_context)
        key = after(context, self._root).end
        self.tree.lock(node, lease=True)
        lease = self.leases.grant(node, start, key, context)
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
        del self._branches[branch.start.branch]

    def _unload(self, branch: Branch) -> None:
        """Give up what the branch holds and computes."""
        if branch.stage:
            self._withdraw(branch.stage)
        if branch.stages:
            branch.stages.close()
        branch.stages = branch.stage = None
        branch.unpin(self.tree)

    # -- pressure ------------------------------------------------------------------------------

    def order(self, stage: Stage | None) -> Order:
        return stage.branch.order if stage else YOUNGEST

    def resume_parked(self, waiting: bool) -> None:
        """Begin the oldest parked branch again, once no branch waits in SGLang's queue."""
        parked = [branch for branch in self._branches.values() if branch.stages is None]
        if parked and not waiting:
            self._begin(min(parked, key=lambda branch: branch.order))

    def relieve(
        self,
        order: Order,
        queued: Collection[Stage],
        *,
        alone: bool,
        desperate: bool = False,
    ) -> bool:
        """Take memory from those younger than `order`; false when there is nothing to take.

        `queued` are the stages that SGLang has not begun.
        `alone`, nothing else runs: then its own request gives too. `desperate`, nothing has run
        for a while: then older ones give as well (before, they may be about to go on).
        """
        lost = self.leases.of_lost_streams()
        if lost:
            return self._revoke(lost)
        age = order[0]
        holders = {lease.request for lease in self.leases}
        waiting = [
            branch
            for branch in self._branches.values()
            if branch.order > order and branch.stage in queued
        ]
        holders.update(branch.start.owner for branch in waiting)
        for request in sorted(holders, key=lambda request: -self._ages[request]):
            of = self._ages[request]
            if of > age or (alone and of == age) or (desperate and of < age):
                return self._strip(request, waiting)
        return False

    def _strip(self, request: RequestId, waiting: list[Branch]) -> bool:
        """End the leases of a request, or else put its youngest waiting branch back."""
        leases = self.leases.of_request(request)
        if leases:
            return self._revoke(leases)
        own = [branch for branch in waiting if branch.start.owner == request]
        if own:
            self.parked += 1
            self._unload(max(own, key=lambda branch: branch.order))
        return bool(own)

    def _revoke(self, leases: list[Lease[Node]]) -> bool:
        for lease in leases:
            self.release(lease.id, lease.request.stream)
        self.revoked += len(leases)
        return True

    def give_up(self, order: Order) -> None:
        """The branch can't be served, though it has all the memory to itself."""
        error = CapacityExceeded("the KV pool is full and nothing can be taken from others")
        for branch in list(self._branches.values()):
            if branch.order == order:
                self._retire(branch, _failed(error))

    # -- count ----------------------------------------------------------------------------------

    def waiting(self, queued: Collection[Stage]) -> int:
        """Branches that wait, in SGLang's queue or before it."""
        return sum(
            branch.stage is None or branch.stage in queued for branch in self._branches.values()
        )

    def __len__(self) -> int:
        return len(self._branches)


def _failed(error: MultiverseError) -> Finish:
    return Finish(FinishReason.FAILED, error=error)
