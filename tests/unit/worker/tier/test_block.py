"""A block is read as it was written, or not at all."""

from __future__ import annotations

import random

import pytest
import zstandard

from multiverse_worker.tier.block import BlockError, BlockForm

NAME, OTHER = b"n" * 32, b"o" * 32
RAW = random.Random(1).randbytes(300) + bytes(300)


@pytest.mark.parametrize("level", [0, 1, 9])
def test_what_was_written_is_read_whatever_the_reader_compresses(level: int) -> None:
    block = BlockForm(zstd_level=level).write(NAME, RAW)
    assert BlockForm().read(NAME, block) == RAW
    assert BlockForm(zstd_level=3).read(NAME, block) == RAW


def test_compression_is_left_out_where_it_does_not_help() -> None:
    noise = random.Random(2).randbytes(500)
    block = BlockForm(zstd_level=3).write(NAME, noise)
    assert len(block) < len(noise) + 64
    assert BlockForm().read(NAME, block) == noise


def test_compressed_blocks_are_smaller() -> None:
    assert len(BlockForm(zstd_level=3).write(NAME, RAW)) < len(BlockForm().write(NAME, RAW))


def test_a_block_under_another_name_is_refused() -> None:
    block = BlockForm().write(NAME, RAW)
    with pytest.raises(BlockError):
        BlockForm().read(OTHER, block)


def test_a_block_of_another_secret_is_refused() -> None:
    block = BlockForm(secret=b"ours").write(NAME, RAW)
    assert BlockForm(secret=b"ours").read(NAME, block) == RAW
    for secret in (b"", b"theirs"):
        with pytest.raises(BlockError):
            BlockForm(secret=secret).read(NAME, block)


def test_a_block_that_would_grow_beyond_all_bounds_is_refused() -> None:
    form = BlockForm(zstd_level=3)
    block = form.write(NAME, bytes(10_000))
    with pytest.raises(BlockError, match="too many"):
        BlockForm(most_bytes=9_999).read(NAME, block)


def test_a_frame_of_another_length_than_it_says_is_refused() -> None:
    form = BlockForm(zstd_level=3)
    packed = zstandard.ZstdCompressor().compress(bytes(5_000))
    head = bytes([1]) + (100).to_bytes(8, "little")
    block = b"MVK1" + head + form._digest(NAME, head, packed) + packed
    with pytest.raises(BlockError):
        form.read(NAME, block)


def _corrupted(block: bytes, rng: random.Random) -> bytes:
    """Bits flipped, a run overwritten, cut, grown, or two halves changed over."""
    changed = bytearray(block)
    at = rng.randrange(len(block))
    kind = rng.randrange(5)
    if kind == 0:
        for _ in range(rng.randint(1, 8)):
            changed[rng.randrange(len(block))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        run = rng.randint(1, 64)
        changed[at : at + run] = rng.randbytes(run)
    elif kind == 2:
        del changed[at:]
    elif kind == 3:
        changed[at:at] = rng.randbytes(rng.randint(1, 64))
    else:
        changed = changed[at:] + changed[:at]
    return bytes(changed)


@pytest.mark.parametrize("level", [0, 3])
def test_a_corrupted_block_is_never_used(level: int) -> None:
    """10^5 random corruptions over both forms."""
    rng = random.Random(level)
    form = BlockForm(zstd_level=level)
    block = form.write(NAME, RAW)
    tried = 0
    while tried < 50_000:
        changed = _corrupted(block, rng)
        if changed == block:  # chance put back what was there
            continue
        tried += 1
        with pytest.raises(BlockError):
            form.read(NAME, changed)
