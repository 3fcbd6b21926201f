"""Penalties, bias, logprobs and stop strings: from an HTTP field to the tokens of the answer."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.model import ServedModel
from multiverse_router.prompt import Turn
from multiverse_shared.tree import Block, Context, Text, count
from tests.conformance.oracle import Layout, Oracle, lay_out
from tests.e2e.answers import FLAT, NESTED, Ask, Event, Tree, chat, chat_chunks, content, whole
from tests.e2e.load import LoadMeter

LETTER = "70"  # an id of text: A
PENALTIES: dict[str, Any] = {
    "frequency_penalty": 2.0,
    "presence_penalty": 0.25,
    "repetition_penalty": 1.1,
}


@pytest.fixture(scope="module")
def oracle(model: Path) -> Oracle:
    return Oracle(model)


@pytest.fixture(scope="module")
def served(model: Path) -> ServedModel:
    """For ids of prompts."""
    names = ("tokenizer.json", "multiverse.json", "tokenizer_config.json", "chat_template.jinja")
    files = {name: (model / name).read_bytes() for name in names}
    return ServedModel.of(pb.GetModelInfoResponse(model="tiny"), files)


def context_of(tree: Tree, path: str = "0") -> Context:
    """The tree in ids, as the events tell it."""
    return tuple(
        Block(tuple(context_of(tree, child) for child in part))
        if isinstance(part, list)
        else Text(tuple(part["token_ids"]))
        for part in tree.paths[path].parts
    )


def laid_out(served: ServedModel, prompt: str, events: list[Event]) -> tuple[Layout, int]:
    """The whole context of an answer, and where the answer begins."""
    context = served.prompts.write([Turn("user", prompt)], parallel=True)
    return lay_out((*context, *context_of(Tree(events)))), count(context)


def entries_of(events: list[Event]) -> list[dict[str, Any]]:
    return list(chain.from_iterable(part["logprobs"] for part in Tree(events).texts()))


# -- logprobs ----------------------------------------------------------------------------------


def test_logprobs_are_those_of_a_forward_of_the_whole_tree(
    told: Ask, served: ServedModel, oracle: Oracle
) -> None:
    events = told(NESTED, logprobs=True, top_logprobs=3)
    layout, start = laid_out(served, NESTED, events)
    rows = oracle.logits(layout).astype(np.float64)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    entries = entries_of(events)
    assert [entry["id"] for entry in entries] == layout.ids[start:]
    expected, got = 0.0, 0.0
    for at, entry in enumerate(entries, start):
        if entry["written"]:
            assert (entry["logprob"], entry["top"]) == (0.0, [])
            continue
        expected += rows[at - 1][entry["id"]]
        got += entry["logprob"]
        assert entry["logprob"] == pytest.approx(rows[at - 1][entry["id"]], abs=1e-3)
        assert entry["top"][0]["id"] == entry["id"]  # greedy
        best = np.sort(rows[at - 1])[::-1][:3]
        assert [top["logprob"] for top in entry["top"]] == pytest.approx(best.tolist(), abs=1e-3)
    assert got == pytest.approx(expected, abs=1e-3)
    written = sum(entry["written"] for entry in entries)
    assert written == events[-2]["written_tokens"] > 0


def test_a_completion_has_the_same_logprobs_in_the_order_of_its_text(
    client: httpx.Client, told: Ask
) -> None:
    native = entries_of(told(NESTED, logprobs=True, top_logprobs=3))
    asked = {"logprobs": True, "top_logprobs": 3}
    [choice] = chat(client, NESTED, **asked)["choices"]
    entries = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
    for entry, known in zip(entries, native, strict=True):
        assert entry["logprob"] == pytest.approx(known["logprob"], abs=1e-4)
        assert bytes(entry["bytes"]).decode() == entry["token"] == known["token"]
        assert ("multiverse" in entry) == known["written"]
        assert len(entry["top_logprobs"]) == (0 if known["written"] else 3)
    chunks = chat_chunks(client, NESTED, **asked)
    streamed = [
        entry
        for chunk in chunks[:-1]
        for entry in (chunk["choices"][0]["logprobs"] or {"content": []})["content"]
    ]
    assert "".join(entry["token"] for entry in streamed) == content(chunks)
    assert len(streamed) == len(entries)


def test_stripped_tags_have_no_logprobs(client: httpx.Client) -> None:
    [choice] = chat(client, FLAT, logprobs=True, multiverse={"tags": "strip"})["choices"]
    entries = choice["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
    assert all(entry["top_logprobs"] == [] for entry in entries)


def test_logprobs_are_left_out_unless_asked_for(client: httpx.Client, told: Ask) -> None:
    assert not any("logprobs" in event for event in told(FLAT))
    whole = chat(client, FLAT, logprobs=False, top_logprobs=0)["choices"][0]
    assert whole["logprobs"] is None


# -- penalties and bias --------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", ["auto", "serial"])
def test_penalties_count_the_generated_tokens_that_a_branch_sees(
    told: Ask, served: ServedModel, oracle: Oracle, parallel: str
) -> None:
    """Every token of every path is the best one by the formulas, over its own past only."""
    events = told(FLAT, **PENALTIES, parallel=parallel)
    tree = Tree(events)
    assert tree.text() != Tree(told(FLAT)).text()
    assert tree.forks()["0"]
    layout, start = laid_out(served, FLAT, events)
    rows, visible = oracle.logits(layout).astype(np.float64), layout.visible
    written = [part["kind"] == "written" for part in tree.texts() for _ in part["token_ids"]]
    unpenalised = 0
    for at, token in enumerate(layout.ids[start:], start):
        if written[at - start]:
            continue
        row = rows[at - 1]
        unpenalised += int(row.argmax()) == token
        for seen in {layout.ids[i] for i in range(start, at) if visible[at - 1][i]}:
            times = sum(layout.ids[i] == seen for i in range(start, at) if visible[at - 1][i])
            value = row[seen] / 1.1 if row[seen] > 0 else row[seen] * 1.1
            row[seen] = value - 2.0 * times - 0.25
        assert row[token] > row.max() - 1e-3
    assert unpenalised < written.count(False), "no penalty has changed a token"


def test_penalties_give_the_same_answer_at_once_and_one_path_at_a_time(told: Ask) -> None:
    both = [told(FLAT, **PENALTIES, parallel=mode) for mode in ("auto", "serial")]
    assert Tree(both[0]).ids() == Tree(both[1]).ids()


def test_a_bias_forces_and_bans_a_token(told: Ask) -> None:
    forced = Tree(told(FLAT, logit_bias={LETTER: 100}, max_tokens=9))
    assert forced.text() == "A" * 9
    assert "A" in Tree(told(NESTED)).text()
    assert "A" not in Tree(told(NESTED, logit_bias={LETTER: -100})).text()


def test_the_end_of_sequence_may_be_forced(told: Ask, served: ServedModel) -> None:
    events = told(FLAT, logit_bias={str(served.eos[0]): 100})
    assert (events[-1]["reason"], events[-2]["completion_tokens"]) == ("stop", 0)


def test_a_min_p_of_one_is_greedy(told: Ask) -> None:
    warm = told(FLAT, temperature=2.0, min_p=1.0, seed=1)
    assert Tree(warm).ids() == Tree(told(FLAT)).ids()


def test_neutral_values_change_nothing(client: httpx.Client, told: Ask) -> None:
    neutral: dict[str, Any] = {
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "logprobs": False,
    }
    [choice] = chat(client, FLAT, **neutral, stop=None, top_logprobs=0)["choices"]
    assert choice["message"]["content"] == Tree(told(FLAT)).text()
    assert (
        Tree(told(FLAT, **neutral, min_p=0, repetition_penalty=1)).ids() == Tree(told(FLAT)).ids()
    )


# -- stop strings --------------------------------------------------------------------------------

STOP = "16"  # two tokens, in a path and then in the conclusion


def test_a_stop_string_ends_the_answer_in_the_root_and_not_in_a_path(
    client: httpx.Client, told: Ask, load: LoadMeter
) -> None:
    free = Tree(told(FLAT)).text()
    in_path, in_root = free.index(STOP), free.rindex(STOP)
    assert in_path < free.index("<Conclusion>") < in_root
    body = whole(client, FLAT, stop=STOP)
    assert body["text"] == free[:in_root]
    assert body["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == Tree(body["events"]).tokens()
    load.until_idle()
    assert client.get("/ready").json()["running"] == 0


@pytest.mark.parametrize("stop", [["nothing", STOP], [STOP, "6"], ["b16=", "x"], "#3"])
def test_the_text_is_cut_before_the_first_of_several(
    client: httpx.Client, told: Ask, stop: list[str] | str
) -> None:
    text = Tree(told(FLAT)).text()
    conclusion = text.index("<Conclusion>")
    stops = [stop] if isinstance(stop, str) else stop
    found = [(text.find(s, conclusion) + len(s), -len(s)) for s in stops if s in text]
    end, length = min(found)
    body = chat(client, FLAT, stop=stop)
    assert body["choices"][0]["message"]["content"] == text[: end + length]
    assert body["choices"][0]["finish_reason"] == "stop"
    assert content(chat_chunks(client, FLAT, stop=stop)) == text[: end + length]


def test_a_tag_is_no_text_to_stop_at(client: httpx.Client, told: Ask) -> None:
    text = whole(client, FLAT, stop=["</Goal>", "39<", "<Conclusion>sum"])["text"]
    assert text == Tree(told(FLAT)).text()


def test_an_answer_that_only_begins_a_stop_string_is_whole(client: httpx.Client, told: Ask) -> None:
    text = Tree(told(FLAT)).text()
    assert whole(client, FLAT, stop=[text[-2:] + "x", "suma12"])["text"] == text
