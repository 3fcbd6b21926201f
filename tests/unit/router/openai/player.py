"""A worker that writes random answers over a hand-fed link: forks, nested, in letters of any size.

What a branch says depends only on the seed and the branch's place, not on what was asked before.
"""

from __future__ import annotations

import json
from functools import cache
from random import Random

from tokenizers import AddedToken, Tokenizer, decoders, models

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.model import ServedModel
from multiverse_shared.dialect import Tag
from tests.unit.router.hand_fed import HandFedLink
from tests.unit.router.served import BOS, EOS, TAGS, served_model

LETTERS = [
    "a",
    " b",
    "<",
    "é",
    "Ω",
    "語",
    "テキ",
    "👍🏽",
    "👩‍👩‍👧",
    "e\u0301",
    "\u2028",
    "\n",
    "1:",
]
THINK = ("<think>", "</think>")


@cache
def byte_fallback() -> bytes:
    """A tokenizer of ASCII letters; all others fall back to their bytes."""
    pieces = [f"<0x{byte:02X}>" for byte in range(256)] + [chr(code) for code in range(32, 127)]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab, [], byte_fallback=True, unk_token="<0x00>"))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    special = (BOS, EOS, *TAGS, *THINK)
    tokenizer.add_special_tokens(
        [AddedToken(tag, special=True, normalized=False) for tag in special]
    )
    return str(tokenizer.to_str()).encode()


@cache
def byte_model(*, thinks: bool = False) -> ServedModel:
    """A model with that tokenizer; one that `thinks` has tags for it."""
    card: dict[str, object] = {"dialect": "multiverse", "prompt_suffix": ""}
    if thinks:
        card["thinking"] = list(THINK)
    return served_model(
        tokenizer_json=byte_fallback(), multiverse_json=json.dumps(card).encode(), kv_cells=1 << 20
    )


class Player:
    """Plays the worker of `link` while it runs. `thinks`: the root thinks before it answers."""

    def __init__(self, link: HandFedLink, *, thinks: bool = False) -> None:
        self.seed = 0
        self._link = link
        self._thinks = thinks
        self._model = link.model
        self.given_back: set[str] = set()

    async def run(self) -> None:
        while True:
            for start in self.take():
                self._play(start)
            await self._link.commanded()

    def take(self) -> list[pb.Start]:
        """New branches; leases that were given back are remembered."""
        commands = self._link.take()
        starts = [command.start for command in commands if command.HasField("start")]
        self.given_back |= {lease for start in starts for lease in start.consumes}
        self.given_back |= {c.release.lease for c in commands if c.HasField("release")}
        return starts

    def _play(self, start: pb.Start) -> None:
        sampling = start.sampling
        rng = Random(f"{self.seed} {sampling.seed} {sampling.stream} {sampling.draws}")
        ids = self._say(start, rng)
        while len(ids) > 1 and rng.random() < 0.7:
            cut = rng.randrange(1, len(ids))
            self._link.decoded(start, ids[:cut])
            ids = ids[cut:]
        self._link.ended(start, ids, f"lease {start.branch}", context_tokens=1)

    def _say(self, start: pb.Start, rng: Random) -> list[int]:
        """All that the branch decodes, to a stop."""
        tags = {tag: list(ids) for tag, ids in self._model.grammar.tags.items()}
        stops = [list(stop.ids) for stop in start.stops]
        depth = start.sampling.stream.count(".")
        begins = start.sampling.draws == 0 and depth == 0
        ids = self._encode(THINK[0]) if self._thinks and begins else []
        if start.sampling.draws:  # behind a join
            ids += [*self._text(rng), *tags[Tag.JOIN_CLOSE], *tags[Tag.BLOCK_CLOSE]]
        ids += self._text(rng)
        may_fork = tags[Tag.PLAN_CLOSE] in stops and not start.sampling.banned
        if may_fork and rng.random() < (0.7 if begins else 0.3) and depth < 3:
            ids += [*tags[Tag.BLOCK_OPEN], *tags[Tag.PLAN_OPEN]]
            for _ in range(rng.randint(1, 3)):
                ids += [*tags[Tag.OUTLINE_OPEN], *self._text(rng), *tags[Tag.OUTLINE_CLOSE]]
            return [*ids, *tags[Tag.PLAN_CLOSE]]
        if tags[Tag.PATH_CLOSE] in stops:
            return [*ids, *tags[Tag.PATH_CLOSE]]
        if self._thinks:
            ids += [*self._encode(THINK[1]), *self._text(rng)]
        return [*ids, *self._model.eos]

    def _text(self, rng: Random) -> list[int]:
        return self._model.tokenizer.encode("".join(rng.choices(LETTERS, k=rng.randint(1, 4))))

    def _encode(self, tag: str) -> list[int]:
        return self._model.tokenizer.encode_trusted(tag)
