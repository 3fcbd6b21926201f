"""Signed contexts: the tree comes back exactly, and nothing but what was signed is decoded."""

from __future__ import annotations

import os
import string
import zlib
from base64 import urlsafe_b64encode
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router import context_seal
from multiverse_router.context_seal import MAX_MESSAGE_BYTES, MAX_SEALED_BYTES, ContextSeal
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tree import Block, Context, JoinRule, Text, normalise
from tests.unit.shared.strategies import few, trees

KEY, OTHER = b"k" * 32, b"o" * 32
SEAL = ContextSeal([KEY])
FIELD = "messages.1.multiverse.context"
TREE: Context = (Text((1, 2)), Block(((Text((3,)),), (Text((300, 70_000)),))), Text((5,)))


def refused(sealed: str, digest: str = "m", seal: ContextSeal = SEAL) -> str:
    """Why it is not opened."""
    with pytest.raises(InvalidRequest) as caught:
        seal.open(sealed, digest, FIELD)
    assert caught.value.field == FIELD
    assert FIELD in caught.value.message
    return caught.value.message


@cache
def sealed() -> str:
    text = SEAL.seal(TREE, "m")
    assert text is not None
    return text


def signed(payload: bytes) -> str:
    """A payload with a good signature."""
    text = urlsafe_b64encode(payload)
    return (context_seal._sign(KEY, "m", text) + text).decode()


# -- there and back -------------------------------------------------------------------------------


@few
@given(tree=trees() | trees((-1, 2)), digest=st.text(max_size=8))
def test_a_tree_comes_back_in_its_normal_form(tree: Context, digest: str) -> None:
    text = SEAL.seal(tree, digest)
    assert text is not None
    assert SEAL.open(text, digest, FIELD) == normalise(tree)


def test_start_positions_and_rules_come_back() -> None:
    tree = (Text((1,)), Block(((Text((2,), start=7),),), JoinRule.RESERVE), Text((3,), start=-1))
    text = SEAL.seal(tree, "m")
    assert text is not None
    assert SEAL.open(text, "m", FIELD) == tree


def test_a_tree_as_deep_as_may_be_asked_for_comes_back() -> None:
    tree: Context = (Text((1,)),)
    for _ in range(16):
        tree = (Text((1,)), Block((tree, tree[:1])), Text((2,)))
    text = SEAL.seal(tree, "m")
    assert text is not None
    assert SEAL.open(text, "m", FIELD) == tree


def test_a_long_answer_is_packed() -> None:
    text = SEAL.seal((Text((1, 2, 3) * 10_000),), "m")
    assert text is not None
    assert len(text) < 2000


def test_it_is_made_of_characters_that_stand_anywhere() -> None:
    assert set(sealed()) <= {*string.ascii_letters, *string.digits, *"-_="}


# -- what is refused ------------------------------------------------------------------------------


def test_any_other_character_anywhere_is_refused() -> None:
    text = sealed()
    for at in range(len(text)):
        for other in {"A", "Q", "-", "=", "é"} - {text[at]}:
            refused(text[:at] + other + text[at + 1 :])


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 200), more=st.text(max_size=5))
def test_a_cut_or_longer_text_is_refused(cut: int, more: str) -> None:
    text = sealed()
    if text[:cut] + more != text:
        refused(text[:cut] + more)


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200))
def test_garbage_is_refused(text: str) -> None:
    refused(text)


def test_another_model_or_another_key_is_refused() -> None:
    assert "model" in refused(sealed(), digest="another")
    refused(sealed(), seal=ContextSeal([OTHER]))


def test_without_its_signature_nothing_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(_: bytes) -> bytes:
        raise AssertionError("decoded what is not signed")

    bomb = _bomb()
    monkeypatch.setattr(context_seal, "_unpacked", decoded)
    monkeypatch.setattr(context_seal, "urlsafe_b64decode", decoded)
    refused("A" * 43 + bomb[43:])


def _bomb() -> str:
    """A few kilobytes that unpack to more than any context has."""
    return signed(b"\1" + zlib.compress(bytes(MAX_MESSAGE_BYTES + 1)))


def test_what_unpacks_to_more_than_any_context_is_refused_though_signed() -> None:
    assert len(_bomb()) < MAX_SEALED_BYTES
    assert "larger" in refused(_bomb())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\2",
        b"\1",
        b"\1rubbish",
        b"\1" + zlib.compress(b"x")[:-1],
        b"\0\xff\xff",
        b"\0" + pb.Context(items=[pb.Item()]).SerializeToString(),
        b"\0" + pb.Context(items=[pb.Item(block=pb.Block(rule=99))]).SerializeToString(),
    ],
)
def test_what_is_no_tree_is_refused_though_signed(payload: bytes) -> None:
    assert "read" in refused(signed(payload))


# -- size -----------------------------------------------------------------------------------------


def test_a_tree_that_would_be_too_large_is_not_sealed() -> None:
    assert SEAL.seal((Text(_random_ids(250_000)),), "m") is None
    assert SEAL.seal((Text((7,) * (MAX_MESSAGE_BYTES + 1)),), "m") is None


def test_what_is_sealed_is_never_too_large_to_be_opened() -> None:
    text = SEAL.seal((Text((7,) * (MAX_MESSAGE_BYTES - 100)),), "m")
    assert text is not None
    assert SEAL.open(text, "m", FIELD)
    assert "at most" in refused(text + "A" * MAX_SEALED_BYTES)


def _random_ids(count: int) -> tuple[int, ...]:
    """Ids of a large vocabulary that no compression makes smaller."""
    return tuple(1 << 20 | value for value in memoryview(os.urandom(4 * count)).cast("I"))


# -- keys -----------------------------------------------------------------------------------------


def test_keys_are_rotated_by_putting_a_new_one_first() -> None:
    old, both, new = (
        ContextSeal.of(keys) for keys in ("a" * 32, f"{'b' * 32}, {'a' * 32}", "b" * 32)
    )
    before, after = (seal.seal(TREE, "m") for seal in (old, both))
    assert before
    assert after
    assert both.open(before, "m", FIELD) == both.open(after, "m", FIELD) == TREE
    assert new.open(after, "m", FIELD) == TREE
    refused(before, seal=new)


def test_without_a_key_each_process_has_its_own_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO"):
        one, other = ContextSeal.of(""), ContextSeal.of("")
    assert "MULTIVERSE_ROUTER_CONTEXT_KEY" in caplog.text
    text = one.seal(TREE, "m")
    assert text is not None
    refused(text, seal=other)


@pytest.mark.parametrize("keys", ["secret", "a" * 31, f"{'a' * 32},secret", f"{'a' * 32},"])
def test_a_short_key_is_refused_and_not_told(keys: str) -> None:
    with pytest.raises(ValidationError, match="32 characters") as caught:
        RouterSettings(context_key=keys)
    assert "secret" not in str(caught.value)
    assert "aaaa" not in str(caught.value)
    assert "context_key" in str(caught.value)


def test_keys_are_not_told_with_the_settings() -> None:
    keys = f"{'a' * 32},{'b' * 32}"
    settings = RouterSettings(context_key=keys)
    assert settings.context_key.get_secret_value() == keys
    assert "aaaa" not in repr(settings)
