"""What is held is not computed again, and plain requests of SGLang are as ever."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiverse_shared.tree import Block, Text, count
from tests.conformance.oracle import Oracle, lay_out
from tests.sglang.player import Player, assert_greedy
from tests.sglang.test_lessons import PROMPT, fork
from tests.unit.worker.client import text

PLAIN = [*range(10, 40)]


def plain(player: Player, prompt: list[int], tokens: int = 6) -> dict[str, Any]:
    """An ordinary request through SGLang's own front end."""
    answer: dict[str, Any] = player.engine.server.engine.generate(
        input_ids=prompt,
        sampling_params={"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
    )
    return answer


def assert_plain_is_right(oracle: Oracle, answer: dict[str, Any]) -> None:
    ids = answer["output_ids"]
    rows = oracle.logits(lay_out((Text((*PLAIN, *ids)),)))
    for offset, token in enumerate(ids):
        row = rows[len(PLAIN) + offset - 1]
        second, best = np.sort(row)[-2:]
        if best - second < 1e-3:
            return
        assert token == int(row.argmax())


def test_plain_requests_before_between_and_after_are_right_and_hit_the_radix_cache(
    player: Player, oracle: Oracle
) -> None:
    first = plain(player, PLAIN)
    before, block, leases = fork(player, "r")
    running = player.start(text(*PLAIN), request="b", max_tokens=60)
    player.step()
    between = plain(player, PLAIN)
    player.run(*before, block, text(62), request="r", max_tokens=6, consumes=leases)
    player.outcome(running)
    after = plain(player, PLAIN)
    for answer in (first, between, after):
        assert_plain_is_right(oracle, answer)
    assert between["meta_info"]["cached_tokens"] == len(PLAIN) - 1
    assert after["meta_info"]["cached_tokens"] == len(PLAIN) - 1


def test_a_second_block_behind_a_first_finds_its_base(player: Player) -> None:
    before, block, leases = fork(player, "r")
    joined = player.run(*before, block, text(62), request="r", max_tokens=4, consumes=leases)
    whole = (*before, block, text(62), Text(joined.ids))
    paths = [
        player.start(
            text(60, 80 + number),
            request="r",
            base_key=joined.finish.key,
            block=joined.start.branch,
            max_tokens=3,
        )
        for number in range(3)
    ]
    for path in paths:
        assert player.outcome(path).finish.reused_tokens == count(whole)
    inner = tuple(
        (text(60, 80 + number, *player.outcome(path).ids),) for number, path in enumerate(paths)
    )
    again = player.run(*whole, Block(inner), text(62), request="r", max_tokens=2)
    assert again.finish.reused_tokens == count((*whole, Block(inner)))


def test_a_prompt_that_others_compute_meanwhile_is_computed_once(player: Player) -> None:
    prompt = text(*range(90), *range(90))
    branches = [
        player.start(prompt, text(number), request=f"{number}", max_tokens=2) for number in range(3)
    ]
    first = player.outcome(branches[0])
    late = player.run(prompt, text(50), request="late", max_tokens=2)
    assert first.finish.reused_tokens == 0
    assert late.finish.reused_tokens == len(prompt.ids)
    for branch in branches:
        player.outcome(branch)


def test_the_base_is_known_by_its_key_in_its_own_stream_only(player: Player) -> None:
    plan = player.run(PROMPT, request="r", max_tokens=3)
    other = Player(player.engine)
    outcome = other.run(text(1), request="r", base_key=plan.finish.key, max_tokens=1)
    assert outcome.finish.error is not None


def test_a_flush_of_sglangs_cache_ends_leases_and_leaves_exact_books(
    player: Player, oracle: Oracle
) -> None:
    before, block, leases = fork(player, "r")
    player.engine.server.engine.flush_cache()
    joined = player.run(*before, block, text(62), request="r", max_tokens=4, consumes=leases)
    assert_greedy(oracle, (*before, block, text(62)), joined)
