"""What is known is not computed again; results never depend on it."""

from __future__ import annotations

from multiverse_shared.errors import NotFound
from multiverse_shared.keys import content_keys
from multiverse_shared.tree import Block, count
from multiverse_worker.contract import FinishReason
from tests.integration.worker.engines import any_engine
from tests.unit.worker.client import AnyEngine, Client, text

pytestmark = any_engine

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
    client.release(client.run(PROMPT).finish.lease)
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
    client.release(base.lease)
    outcome = client.run(text(9), base_key=base.key)
    assert outcome.finish.reason is FinishReason.FAILED
    assert isinstance(outcome.finish.error, NotFound)
    assert not outcome.finish.lease


def test_a_base_is_unknown_to_other_streams(engine: AnyEngine) -> None:
    base = Client(engine, stream=1).run(PROMPT).finish
    outcome = Client(engine, stream=2).run(text(9), base_key=base.key)
    assert isinstance(outcome.finish.error, NotFound)


def test_a_join_has_one_key_whether_its_paths_are_computed_or_held(client: Client) -> None:
    context = (PROMPT, BLOCK, text(60, 61))
    computed = client.run(*context).finish
    client.engine.drop_cached()
    plan = client.run(PROMPT)
    fields = {"base_key": plan.finish.key, "block": plan.start.branch}
    paths = [client.run(*path, **fields).finish.lease for path in BLOCK.paths]
    joined = client.run(*context, consumes=(plan.finish.lease, *paths)).finish
    by_definition = content_keys(context, client.engine.info.namespace)[-1].key
    assert joined.key == computed.key == by_definition
    assert joined.reused_tokens == count(context[:2])


def test_the_spine_behind_a_join_is_reused(client: Client) -> None:
    context = (PROMPT, BLOCK, text(60, 61, 62))
    client.run(*context)
    finish = client.run(*context, text(63)).finish
    assert finish.reused_tokens == count(context)
