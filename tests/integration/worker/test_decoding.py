"""How one branch is decoded: which tokens, and how it ends."""

from __future__ import annotations

import pytest

from multiverse_shared.effects import Stop
from multiverse_worker.contract import FinishReason, Sampling
from tests.integration.worker.engines import any_engine
from tests.unit.worker.client import Client, text

pytestmark = any_engine

PROMPT = text(3, 14, 15, 92, 65, 35)


def test_a_neighbour_in_the_batch_changes_no_token(client: Client) -> None:
    prompts = [text(number, *PROMPT.ids) for number in range(8)]
    alone = [client.run(prompt, max_tokens=12).ids for prompt in prompts]
    client.engine.drop_cached()
    branches = [client.start(prompt, max_tokens=12) for prompt in prompts]
    assert [client.outcome(branch).ids for branch in branches] == alone


# -- ends ------------------------------------------------------------------------------------------


def test_max_tokens_ends_a_branch_with_the_length_tail(client: Client) -> None:
    outcome = client.run(PROMPT, max_tokens=4, length_tail=(7, 8))
    finish = outcome.finish
    assert len(outcome.ids) == 4
    assert (finish.reason, finish.appended) == (FinishReason.LENGTH, (7, 8))
    assert finish.context_tokens == 6 + 4 + 2
    again = client.run(PROMPT, text(*outcome.ids, 7, 8), max_tokens=0).finish
    assert (again.key, again.reused_tokens) == (finish.key, 12)


def test_no_tokens_only_brings_the_context_in(client: Client) -> None:
    outcome = client.run(PROMPT, max_tokens=0)
    assert outcome.ids == ()
    assert outcome.finish.reason is FinishReason.LENGTH
    assert outcome.finish.context_tokens == 6
    assert client.engine.load().kv_cells_free == 1024 - 6


def test_no_tokens_with_a_tail_appends_it(client: Client) -> None:
    finish = client.run(PROMPT, max_tokens=0, length_tail=(9,)).finish
    assert (finish.appended, finish.context_tokens) == ((9,), 7)


def test_a_stop_of_one_id_ends_the_branch_and_names_itself(client: Client) -> None:
    free = client.run(PROMPT, max_tokens=10).ids
    stops = (Stop((95,)) if free[3] != 95 else Stop((94,)), Stop((free[3],), tail=(7, 8)))
    outcome = client.run(PROMPT, max_tokens=10, stops=stops, length_tail=(1,))
    kept = free[: free.index(free[3]) + 1]
    assert outcome.ids == kept
    assert (outcome.finish.reason, outcome.finish.stop) == (FinishReason.STOP, 1)
    assert outcome.finish.appended == (7, 8)
    assert outcome.finish.context_tokens == 6 + len(kept) + 2


def test_a_stop_of_several_ids_ends_the_branch_at_the_last_of_them(client: Client) -> None:
    script = (50, 51, 50, 52, 60, 61)
    outcome = client.run(PROMPT, max_tokens=6, script=script, stops=(Stop((50, 52), tail=(7,)),))
    assert outcome.ids == (50, 51, 50, 52)
    assert outcome.finish.reason is FinishReason.STOP
    assert outcome.finish.context_tokens == 6 + 4 + 1


def test_a_stop_does_not_begin_in_the_context(client: Client) -> None:
    outcome = client.run(PROMPT, max_tokens=2, script=(50, 51), stops=(Stop((35, 50)),))
    assert (outcome.ids, outcome.finish.reason) == ((50, 51), FinishReason.LENGTH)


def test_a_dropped_stop_is_said_but_is_not_part_of_the_context(client: Client) -> None:
    stops = (Stop((52,), tail=(7, 8), keep=False),)
    outcome = client.run(PROMPT, max_tokens=6, script=(50, 51, 52, 53), stops=stops)
    assert outcome.ids == (50, 51, 52)
    assert outcome.finish.appended == (7, 8)
    assert outcome.finish.context_tokens == 6 + 2 + 2
    again = client.run(PROMPT, text(50, 51, 7, 8)).finish
    assert (again.key, again.reused_tokens) == (outcome.finish.key, 10)


def test_a_dropped_stop_at_once_leaves_the_context_as_it_was(client: Client) -> None:
    stops = (Stop((52,), keep=False),)
    outcome = client.run(PROMPT, max_tokens=6, script=(52,), stops=stops)
    assert outcome.ids == (52,)
    assert outcome.finish.context_tokens == 6
    assert outcome.finish.key == client.run(PROMPT).finish.key


def test_of_two_stops_that_end_together_the_first_counts(client: Client) -> None:
    stops = (Stop((51,), tail=(1,)), Stop((50, 51), tail=(2,)))
    finish = client.run(PROMPT, max_tokens=6, script=(50, 51), stops=stops).finish
    assert (finish.stop, finish.appended) == (0, (1,))


def test_a_stop_with_the_last_token_is_a_stop(client: Client) -> None:
    finish = client.run(PROMPT, max_tokens=1, script=(50,), stops=(Stop((50,)),)).finish
    assert finish.reason is FinishReason.STOP


def test_a_tail_is_held_when_the_end_is_said(client: Client) -> None:
    """What goes on behind a tail computes only what it adds."""
    end = client.run(PROMPT, max_tokens=3, script=(50, 51, 52), length_tail=(7, 8)).finish
    on = client.run(text(9), base_key=end.key, max_tokens=8)
    assert on.finish.reused_tokens == 11


# -- what is drawn -----------------------------------------------------------------------------


def test_each_token_has_its_logprob_when_asked(client: Client) -> None:
    outcome = client.run(PROMPT, max_tokens=6, sampling=Sampling(logprobs=True))
    assert len(outcome.logprobs) == 6
    assert max(outcome.logprobs) <= 0


def test_scripted_ids_are_taken_first_and_then_drawn_ones(client: Client) -> None:
    outcome = client.run(PROMPT, max_tokens=8, script=(50, 51))
    assert outcome.ids[:2] == (50, 51)
    assert len(outcome.ids) == 8


def test_logprobs_are_left_out_unless_asked_for(client: Client) -> None:
    assert client.run(PROMPT, max_tokens=3).logprobs == ()


def test_banned_ids_are_not_drawn(client: Client) -> None:
    free = client.run(PROMPT, max_tokens=6).ids
    ruled = client.run(PROMPT, max_tokens=6, sampling=Sampling(banned=((free[0],),))).ids
    assert free[0] not in ruled


SAMPLED = Sampling(temperature=1.0, top_p=0.95, top_k=50, seed=42, stream="0.1")


def sampled(client: Client, *context: object, tokens: int = 12, **changes: object) -> object:
    values = {name: getattr(SAMPLED, name) for name in SAMPLED.__dataclass_fields__}
    return client.run(*context, max_tokens=tokens, sampling=Sampling(**{**values, **changes})).ids


def test_a_sampled_run_is_reproducible_with_and_without_cache(client: Client) -> None:
    first = sampled(client, PROMPT)
    assert sampled(client, PROMPT) == first
    client.engine.drop_cached()
    assert sampled(client, PROMPT) == first


@pytest.mark.parametrize("told", [1, 5, 11])
def test_a_sampled_run_goes_on_alike_from_any_token(client: Client, told: int) -> None:
    whole = sampled(client, PROMPT)
    assert isinstance(whole, tuple)
    client.engine.drop_cached()
    rest = sampled(client, PROMPT, text(*whole[:told]), tokens=12 - told, draws=told)
    assert rest == whole[told:]


def test_siblings_draw_differently_from_one_seed(client: Client) -> None:
    streams = ("0.1", "0.2", "0.3")
    assert len({sampled(client, PROMPT, stream=stream) for stream in streams}) == 3


def test_seeds_differ(client: Client) -> None:
    assert sampled(client, PROMPT, seed=1) != sampled(client, PROMPT, seed=2)
