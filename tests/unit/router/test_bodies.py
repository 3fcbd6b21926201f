"""Request bodies: what they may hold, and the limits that follow from them."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from multiverse_router.api.bodies import GenerateBody, Message, answer_request
from multiverse_router.api.openai.bodies import ChatBody
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest, Parallel, SamplingOptions
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.limits import Limits
from multiverse_shared.tree import count
from tests.unit.router.app import SEAL
from tests.unit.router.served import SUFFIX, served_model, tokenizer, told

SETTINGS = RouterSettings(default_max_tokens=500)
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}


def request(served: ServedModel, prompt: str = "x", **fields: Any) -> AnswerRequest:
    body = GenerateBody(prompt=prompt, **fields)
    messages = [Message(role="user", content=prompt)]
    return answer_request("r", body, body, messages, body.max_tokens, served, SETTINGS, SEAL)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"temprature": 1}, "temprature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 10.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": float("nan")}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 1 << 40}, "top_k"),
        ({"min_p": -0.1}, "min_p"),
        ({"min_p": 1.1}, "min_p"),
        ({"min_p": float("nan")}, "min_p"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"5": 100.5}}, "logit_bias"),
        ({"logit_bias": {"5": float("nan")}}, "logit_bias"),
        ({"logit_bias": {str(n): 1 for n in range(1025)}}, "logit_bias"),
        ({"logprobs": 5}, "logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"logprobs": False, "top_logprobs": 1}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"stop": ""}, "stop"),
        ({"stop": []}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stop": "\ud800"}, "stop"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 63}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_critical_tokens": 0}, "max_critical_tokens"),
        ({"max_paths": 0}, "max_paths"),
        ({"max_depth": -1}, "max_depth"),
        ({"max_path_tokens": 0}, "max_path_tokens"),
        ({"max_goal_tokens": 0}, "max_goal_tokens"),
        ({"max_live_paths": 0}, "max_live_paths"),
        ({"max_blocks": -1}, "max_blocks"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"deadline_s": float("nan")}, "deadline_s"),
        ({"deadline_s": 1e6}, "deadline_s"),
        ({"parallel": "maybe"}, "parallel"),
        ({"tags": "drop"}, "tags"),
        ({"prompt": ["x"]}, "prompt"),
        ({"prompt": None, "messages": []}, "messages"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError) as caught:
        GenerateBody(**{"prompt": "x", **fields})
    assert caught.value.errors()[0]["loc"][0] == where


@pytest.mark.parametrize("name", ["max_paths", "max_live_paths", "max_depth", "max_blocks"])
def test_the_server_sets_how_much_may_be_asked_for(name: str) -> None:
    most = getattr(SETTINGS, name.replace("max_", "most_"))
    assert getattr(request(served_model(), **{name: most}).limits, name) == most
    with pytest.raises(InvalidRequest, match=f"{most} is allowed") as caught:
        request(served_model(), **{name: most + 1})
    assert caught.value.field == name


def test_every_limit_of_an_answer_can_be_asked_for() -> None:
    asked = {field.name: 3 for field in fields(Limits) if field.name != "max_total_tokens"}
    wanted = request(served_model(), max_tokens=7, **asked)
    assert asdict(wanted.limits) == {"max_total_tokens": 7, **asked}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"temperature": 2.1}, ("temperature",)),
        ({"n": 0}, ("n",)),
        ({"n": 129}, ("n",)),
        ({"functions": []}, ("functions",)),
        ({"max_completion_tokens": 0}, ("max_completion_tokens",)),
        ({"stream_options": {"usage": True}}, ("stream_options", "usage")),
        ({"multiverse": {"max_branches": 1}}, ("multiverse", "max_branches")),
        ({"messages": [{"role": "robot", "content": "x"}]}, ("messages", 0, "role")),
        ({"messages": [{"role": "user"}]}, ("messages", 0, "content")),
    ],
)
def test_a_wrong_chat_field_is_refused_by_its_name(
    fields: dict[str, Any], where: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        ChatBody(**{**CHAT, **fields})
    assert caught.value.errors()[0]["loc"] == where


@pytest.mark.parametrize("fields", [{}, {"prompt": "x", **CHAT}])
def test_prompt_and_messages_are_one_or_the_other(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="only one"):
        GenerateBody(**fields)


def test_left_out_fields_have_the_documented_defaults() -> None:
    native, chat = GenerateBody(prompt="x"), ChatBody(**CHAT)
    assert (native.temperature, native.top_p, native.top_k, native.stream) == (0.0, 1.0, 0, True)
    assert (chat.temperature, chat.top_p, chat.top_k, chat.stream) == (1.0, 1.0, 0, False)
    limits = request(served_model()).limits
    assert (limits.max_paths, limits.max_depth, limits.max_path_tokens) == (16, 4, 4096)


@settings(max_examples=60, deadline=None)
@given(
    context=st.integers(8, 300),
    cells=st.integers(8, 600),
    length=st.integers(0, 320),
    wanted=st.none() | st.integers(1, 700),
    critical=st.none() | st.integers(1, 700),
)
def test_the_longest_chain_fits_the_context_and_the_budget_is_what_was_asked_for(
    context: int, cells: int, length: int, wanted: int | None, critical: int | None
) -> None:
    model = served_model(context_length=context, kv_cells=cells)
    fields = {"max_tokens": wanted, "max_critical_tokens": critical, "parallel": "off"}
    limits = (made := request(model, "q" * length, **fields)).limits
    prompt = count(made.prompt)
    assert limits.max_critical_tokens is not None
    assert 1 <= limits.max_critical_tokens <= limits.max_total_tokens or critical
    if critical:
        assert limits.max_critical_tokens <= critical
    if prompt < context:
        assert prompt + limits.max_critical_tokens <= context
    if wanted:
        assert limits.max_total_tokens == wanted
    elif prompt < min(context, cells):
        assert 1 <= limits.max_total_tokens <= SETTINGS.default_max_tokens
        assert prompt + limits.max_total_tokens <= min(context, cells)


def test_the_shape_of_the_tree_is_taken_over() -> None:
    limits = request(served_model(), max_paths=2, max_depth=0, max_path_tokens=9).limits
    assert (limits.max_paths, limits.max_depth, limits.max_path_tokens) == (2, 0, 9)


def test_off_means_no_suffix_in_the_prompt() -> None:
    model = served_model()
    made = {mode: request(model, parallel=mode) for mode in ("auto", "serial", "off")}
    assert made["auto"].prompt == made["serial"].prompt
    assert told(made["auto"].prompt) == told(made["off"].prompt) + SUFFIX
    assert made["off"].parallel is Parallel.OFF


def test_a_seed_left_out_is_drawn_anew() -> None:
    model = served_model()
    assert request(model, seed=5).sampling.seed == 5
    assert len({request(model).sampling.seed for _ in range(8)}) == 8


def test_a_prompt_without_tokens_is_refused() -> None:
    bare = served_model(chat_template_jinja=b"{{ messages[0].content }}")
    with pytest.raises(InvalidRequest) as caught:
        request(bare, "", parallel="off")
    assert caught.value.field == "messages"


def test_null_is_left_out_as_openai_has_it() -> None:
    nulls = {"temperature": None, "top_p": None, "n": None, "stream": None, "stop": None}
    assert ChatBody(**CHAT, **nulls, stream_options=None, multiverse=None) == ChatBody(**CHAT)


def test_every_sampling_field_is_taken_over() -> None:
    options = {
        "seed": 5,
        "temperature": 0.5,
        "top_p": 0.25,
        "top_k": 40,
        "min_p": 0.125,
        "presence_penalty": -1.5,
        "frequency_penalty": 1.5,
        "repetition_penalty": 1.25,
        "logprobs": True,
        "top_logprobs": 20,
    }
    made = request(served_model(), **options, logit_bias={"300": -100, "200": 0.5})
    assert made.sampling == SamplingOptions(**options, logit_bias=((200, 0.5), (300, -100.0)))
    assert made.stop == ()


@pytest.mark.parametrize(("stop", "strings"), [("ab", ("ab",)), (["a", "b"], ("a", "b"))])
def test_a_stop_is_one_string_or_several(stop: Any, strings: tuple[str, ...]) -> None:
    assert request(served_model(), stop=stop).stop == strings


def test_a_bias_on_an_id_outside_the_vocabulary_is_refused() -> None:
    for token in (-1, 330):
        with pytest.raises(InvalidRequest, match="0 to 329") as caught:
            request(served_model(), logit_bias={str(token): 1})
        assert caught.value.field == "logit_bias"


def test_a_bias_may_force_the_end_but_no_tag() -> None:
    model = served_model()
    assert request(model, logit_bias={str(model.eos[0]): 100})
    control = tokenizer().control_ids - set(model.eos)
    assert {ids[0] for ids in model.grammar.tags.values()} < control
    for token in control:
        with pytest.raises(InvalidRequest, match="control token") as caught:
            request(model, logit_bias={str(token): -1})
        assert caught.value.field == "logit_bias"
