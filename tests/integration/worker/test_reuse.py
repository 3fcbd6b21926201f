"""What is known is not computed again; results never depend on it."""

from __future__ import annotations

from multiverse_shared.errors import NotFound
from multiverse_shared.tree import Block, count
from multiverse_worker.contract import FinishReason
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.models.directory import ModelDirectory
from tests.conformance.oracle import Oracle, lay_out
from tests.unit.worker.client import Client, Seen, text

PROMPT = text(*range(1, 81))
BLOCK = Block(((text(20, 21, 22),), (text(20, 31),), (text(20, 31, 40, 41),)))


def test_a_repeated_prompt_is_reused_and_answered_alike(client: Client) -> None:
    first = client.run(PROMPT, max_tokens=10)
    second = client.run(PROMPT, max_tokens=10)
    assert first.finish.reused_tokens == 0
    assert second.finish.reused_tokens == 79  # the last one is computed for its logits
    assert second.ids == first.ids
    assert second.finish.key == first.finish.key


def test_a_common_beginning_is_reused_up_to_the_token_that_differs(client: Client) -> None:
    client.run(PROMPT)
    finish = client.run(text(*PROMPT.ids[:70], 90, 91)).finish
    assert finish.reused_tokens == 70


def test_an_idle_context_is_reused_after_its_lease(client: Client) -> None:
    client.engine.release(client.run(PROMPT).finish.lease)
    assert client.run(PROMPT, text(90)).finish.reused_tokens == 80


def test_dropped_contexts_are_computed_again(client: Client) -> None:
    first = client.run(PROMPT, max_tokens=5)
    client.engine.drop_cached()
    second = client.run(PROMPT, max_tokens=5)
    assert second.finish.reused_tokens == 0
    assert second.ids == first.ids


def test_siblings_go_on_from_one_base(client: Client) -> None:
    base = client.run(PROMPT, max_tokens=4)
    branches = [
        client.start(text(20, number), base_key=base.finish.key, max_tokens=6)
        for number in (50, 51, 52)
    ]
    outcomes = [client.outcome(branch) for branch in branches]
    full = [
        client.run(PROMPT, text(*base.ids, 20, number), max_tokens=6) for number in (50, 51, 52)
    ]
    assert [outcome.finish.reused_tokens for outcome in outcomes] == [84, 84, 84]
    assert [outcome.ids for outcome in outcomes] == [outcome.ids for outcome in full]
    assert [o.finish.key for o in outcomes] == [o.finish.key for o in full]


def test_a_base_is_unknown_after_its_release(client: Client) -> None:
    base = client.run(PROMPT).finish
    client.engine.release(base.lease)
    outcome = client.run(text(9), base_key=base.key)
    assert outcome.finish.reason is FinishReason.FAILED
    assert isinstance(outcome.finish.error, NotFound)
    assert not outcome.finish.lease


def test_a_base_is_unknown_to_other_streams(engine: LlamaCppEngine) -> None:
    base = Client(engine, stream=1).run(PROMPT).finish
    outcome = Client(engine, stream=2).run(text(9), base_key=base.key)
    assert isinstance(outcome.finish.error, NotFound)


def test_a_join_is_exact_whether_its_paths_are_computed_or_held(
    client: Client, model: ModelDirectory
) -> None:
    context = (PROMPT, BLOCK, text(60, 61))
    expected = Oracle(model.path).logits(lay_out(context))
    seen = Seen.by(client.engine)
    computed = client.run(*context)
    client.engine.drop_cached()
    base = client.run(PROMPT)
    fields = {"base_key": base.finish.key, "block": base.start.branch}
    paths = [client.run(*path, **fields).finish.lease for path in BLOCK.paths]
    joined = client.run(*context, consumes=tuple(paths))
    for outcome in (computed, joined):
        assert seen.difference(outcome.start.branch, expected) < 1e-4
    assert joined.finish.key == computed.finish.key


def test_the_spine_behind_a_join_is_reused(client: Client) -> None:
    context = (PROMPT, BLOCK, text(60, 61, 62))
    client.run(*context)
    finish = client.run(*context, text(63)).finish
    assert finish.reused_tokens == count(context)
