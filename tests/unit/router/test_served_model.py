"""A model made from the files that a worker serves, and what is wrong with bad ones."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.model import ServedModel
from multiverse_router.prompt import Turn
from multiverse_router.settings import Positions, RouterSettings
from multiverse_shared.errors import InvalidModel, MultiverseError
from multiverse_shared.tree import Block, Text
from tests.unit.router.served import EOS, model_files, model_info, served_model, tokenizer, told


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tokenizer_json": None}, "tokenizer.json"),
        ({"multiverse_json": None}, "multiverse.json"),
        ({"multiverse_json": b"{"}, "multiverse.json"),
        ({"multiverse_json": b'{"dialect": "multiverse"}'}, "prompt_suffix"),
        ({"multiverse_json": b'{"dialect": "none", "prompt_suffix": ""}'}, "none"),
        ({"tokenizer_config_json": b"[]"}, "tokenizer_config.json"),
        ({"generation_config_json": b"[]"}, "generation_config.json"),
        ({"chat_template_jinja": None}, "chat_template.jinja"),
        ({"chat_template_jinja": b"{% if %}"}, "template"),
        ({"tokenizer_config_json": b"{}"}, "eos"),
        ({"tokenizer_config_json": b'{"eos_token": "<nowhere>"}'}, "eos"),
    ],
)
def test_a_wrong_file_is_named(changes: dict[str, bytes | None], named: str) -> None:
    with pytest.raises(MultiverseError, match=named):
        ServedModel.of(model_info(), model_files(**changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tokenizer_json": b"{}"}, "tokenizer.json"),
        ({"tokenizer_json": b"\xff"}, "tokenizer.json"),
        ({"generation_config_json": b"{"}, "generation_config.json"),
        ({"tokenizer_config_json": b"\xff"}, "tokenizer_config.json"),
        ({"tokenizer_config_json": b'{"eos_token": {}}'}, "tokenizer_config.json"),
        ({"chat_template_jinja": b"\xff"}, "chat_template.jinja"),
    ],
)
def test_an_unreadable_file_is_an_invalid_model(
    changes: dict[str, bytes | None], named: str
) -> None:
    """Any other exception would end the link to the worker for good."""
    with pytest.raises(InvalidModel, match=named):
        ServedModel.of(model_info(), model_files(**changes))


def card(dialect: str) -> bytes:
    return json.dumps({"dialect": dialect, "prompt_suffix": ""}).encode()


def test_offset_positions_need_an_engine_that_can_give_them() -> None:
    files, able = model_files(multiverse_json=card("multiverse-qwen")), model_info()
    with pytest.raises(InvalidModel, match="MULTIVERSE_ROUTER_POSITIONS=sequential") as caught:
        ServedModel.of(model_info(), files)
    assert caught.value.field == "positions"
    able.capabilities.append(pb.CAPABILITY_FREE_POSITIONS)
    trained = ServedModel.of(able, files).grammar.dialect
    assert (trained.path_offset, trained.join_offset) == (-1, -1)
    sequential = ServedModel.of(model_info(), files, Positions.SEQUENTIAL)
    assert sequential.grammar.dialect == replace(trained, path_offset=0, join_offset=0)
    assert sequential.positions is Positions.SEQUENTIAL


@pytest.mark.parametrize("dialect", ["pasta", "pasta-reserve"])
def test_a_dialect_whose_parent_does_not_wait_is_refused(dialect: str) -> None:
    with pytest.raises(InvalidModel, match="can be read"):
        ServedModel.of(model_info(), model_files(multiverse_json=card(dialect)))


def test_the_end_of_sequence_is_the_generation_configs_else_the_tokenizers() -> None:
    assert served_model().eos == (tokenizer().token_id(EOS),)
    assert served_model(generation_config_json=b'{"eos_token_id": 7}').eos == (7,)
    assert served_model(generation_config_json=b'{"eos_token_id": [7, 9]}').eos == (7, 9)


def test_a_token_may_be_spelled_as_an_object() -> None:
    config = json.dumps({"eos_token": {"content": EOS}}).encode()
    assert served_model(tokenizer_config_json=config).eos == (tokenizer().token_id(EOS),)


def test_a_template_may_stand_in_the_tokenizers_configuration() -> None:
    config = json.dumps({"eos_token": EOS, "chat_template": "Q{{ messages[0].content }}"}).encode()
    model = served_model(chat_template_jinja=None, tokenizer_config_json=config)
    assert told(model.prompts.write([Turn("user", "x")], parallel=False)) == "Qx"


def test_a_block_takes_room_in_the_pool_by_tokens_and_in_the_context_by_positions() -> None:
    prompt = (Text((1,)), Block(((Text((2, 3)),), (Text((4,)),))), Text((5,)))
    assert served_model(context_length=100, kv_cells=1000).room(prompt) == 100 - 4
    model = served_model(context_length=100, kv_cells=50)
    assert model.room(prompt) == model.pool_room(prompt) == 50 - 5


def test_earlier_answers_are_read_within_the_servers_largest_limits() -> None:
    text = (
        "<Parallel><Goal><Outline>1:a</Outline></Goal><Path>1:b</Path><Conclusion>c</Conclusion>"
        "</Parallel>"
    )
    for most_depth, kinds in ((1, [Text, Block, Text]), (0, [Text])):
        history = RouterSettings(most_depth=most_depth).largest_limits
        model = ServedModel.of(model_info(), model_files(), history=history)
        prompt = model.prompts.write([Turn("assistant", text)], parallel=False)
        assert [type(item) for item in prompt] == kinds
