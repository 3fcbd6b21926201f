"""A chat as a prompt: where the suffix stands, and which turns are trees."""

from __future__ import annotations

from functools import cache
from itertools import chain

import pytest

from multiverse_router.model import ServedModel
from multiverse_router.prompt import Turn
from multiverse_shared.encode import TextBlock, encode
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tree import Block, Context, Text, linearise, normalise
from tests.unit.router.served import SUFFIX, served_model, tokenizer, told

BLOCK = TextBlock(("one", "two"), (("the first",), ("the second",)), ("so",))
PLAIN = b"{% for m in messages %}[{{ m.content }}]{% endfor %}"


@cache
def model(template: bytes | None = None) -> ServedModel:
    return served_model(**({"chat_template_jinja": template} if template else {}))


def answer() -> Context:
    """An answer with a block, as it is served."""
    return normalise(encode(("Well: ", BLOCK, " That is it."), model().grammar))


def write(*turns: Turn, parallel: bool = False, template: bytes | None = None) -> Context:
    return model(template).prompts.write(turns, parallel=parallel)


def user(text: str) -> Turn:
    return Turn("user", text)


def assistant(text: str, context: Context | None = None) -> Turn:
    return Turn("assistant", text, context)


# -- the suffix -----------------------------------------------------------------------------------


def test_the_suffix_ends_the_last_user_message_when_parallel() -> None:
    chat = [user("one"), user("two")]
    assert told(write(*chat, parallel=True)) == f"<bos><Path>user:one<Path>user:two{SUFFIX}"
    assert told(write(*chat)) == "<bos><Path>user:one<Path>user:two"


def test_a_suffix_that_stands_there_is_not_doubled() -> None:
    assert write(user(f"x{SUFFIX}"), parallel=True) == write(user("x"), parallel=True)


def test_an_assistants_turn_after_the_users_keeps_the_suffix_with_the_user() -> None:
    text = told(write(user("x"), assistant("y"), parallel=True))
    assert text == f"<bos><Path>user:x{SUFFIX}<Path>assistant:y"


def test_without_a_user_message_there_is_no_suffix() -> None:
    chat = Turn("system", "rules")
    assert write(chat, parallel=True) == write(chat)


@pytest.mark.parametrize("said", ["plainly", None])
def test_a_prompt_begins_as_the_one_before_the_last_answer_did(said: str | None) -> None:
    before = [user("a"), user("b")]
    said = said or told(answer())
    earlier = linearise(write(*before, parallel=True))
    later = linearise(write(*before, assistant(said), user("c"), parallel=True))
    assert later[: len(earlier)] == earlier


def test_off_keeps_the_suffix_of_what_was_answered_with_a_block() -> None:
    chat = [user("a"), assistant("plainly"), user("b"), assistant(told(answer())), user("c")]
    text = told(write(*chat, template=PLAIN))
    assert text == f"[a][plainly][b{SUFFIX}][{told(answer())}][c]"


# -- trees ----------------------------------------------------------------------------------------


def test_an_assistants_well_formed_text_is_the_tree_that_was_served() -> None:
    prompt = write(user("q"), assistant(told(answer())), user("r"), template=PLAIN)
    said = [text for text in answer() if isinstance(text, Text)]
    blocks = [item for item in answer() if isinstance(item, Block)]
    assert [item for item in prompt if isinstance(item, Block)] == blocks
    assert linearise(prompt[:1])[-len(said[0].ids) :] == said[0].ids


def test_a_signed_tree_and_its_text_give_the_same_prompt() -> None:
    by_text = write(user("q"), assistant(told(answer())), user("r"), parallel=True)
    by_tree = write(user("q"), assistant("ignored", answer()), user("r"), parallel=True)
    assert by_tree == by_text


@pytest.mark.parametrize("role", ["user", "system"])
def test_the_same_text_of_anyone_else_is_characters(role: str) -> None:
    text = told(answer())
    prompt = write(Turn(role, text), template=PLAIN)
    assert prompt == (Text(tuple(tokenizer().encode(f"[{text}]"))),)


def test_an_ill_formed_answer_is_characters_throughout() -> None:
    text = told(answer()).removesuffix(" That is it.").removesuffix("</Parallel>")
    prompt = write(assistant(text), template=PLAIN)
    assert tokenizer().control_ids.isdisjoint(linearise(prompt))
    assert told(prompt) == f"[{text}]"


def test_a_well_formed_answer_has_no_control_ids_but_its_dialects() -> None:
    text = told(answer()) + "<eos><bos>"
    ids = linearise(write(assistant(text), template=PLAIN))
    tags = set(chain(*model().grammar.tags.values()))
    assert tokenizer().control_ids.intersection(ids) <= tags
    assert tokenizer().decode(ids) == f"[{text}]"


def test_a_template_that_changes_an_answer_gives_its_text_no_control_ids() -> None:
    changing = b"{% for m in messages %}{{ m.content[1:] }}{% endfor %}"
    prompt = write(assistant(told(answer())), template=changing)
    assert tokenizer().control_ids.isdisjoint(linearise(prompt))


def test_a_template_that_changes_a_signed_answer_is_refused() -> None:
    changing = b"{% for m in messages %}{{ m.content[1:] }}{% endfor %}"
    with pytest.raises(InvalidRequest) as caught:
        write(user("q"), assistant("", answer()), template=changing)
    assert caught.value.field == "messages.1.multiverse.context"


def test_a_template_can_cut_an_answer_but_not_read_it() -> None:
    asking = b"{% for m in messages %}{{ 'yes' if 'second' in m.content else 'no' }}{% endfor %}"
    assert "second" in told(answer())
    assert told(write(assistant("", answer()), template=asking)) == "no"
