"""What `multiverse eval compare` compares: NAME=DIRECTORY with options."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiverse_trainer.evaluation.asking import Arm

_CHOICES = {"parallel": ("auto", "serial", "off"), "positions": ("trained", "sequential")}


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """A model directory, how it is served and how it is asked."""

    name: str
    model: Path
    parallel: str
    positions: str

    async def arm(self, url: str, max_tokens: int, endpoints: AsyncExitStack) -> Arm:
        """Asks at `url`, as long as `endpoints` is open."""
        from multiverse_trainer.evaluation.asking import Arm
        from multiverse_trainer.evaluation.endpoint import OpenAiEndpoint, Way

        endpoint = await endpoints.enter_async_context(OpenAiEndpoint(url))
        return Arm(endpoint, Way(self.name, {"parallel": self.parallel}, max_tokens))


def parse_arm(text: str) -> ArmSpec:
    """ValueError names the part at fault."""
    name, equals, rest = text.partition("=")
    directory, *options = rest.split(",")
    if not (name and equals and directory):
        raise ValueError(f"--arm {text!r} is not NAME=DIRECTORY[,OPTION=VALUE...]")
    chosen = {key: values[0] for key, values in _CHOICES.items()}
    for option in options:
        key, _, value = option.partition("=")
        if value not in _CHOICES.get(key, ()):
            known = "; ".join(f"{key}={'|'.join(values)}" for key, values in _CHOICES.items())
            raise ValueError(f"--arm {name}: {option!r} is none of {known}")
        chosen[key] = value
    return ArmSpec(name, Path(directory), **chosen)


def parse_arms(texts: Sequence[str]) -> list[ArmSpec]:
    """ValueError for a name that is given twice."""
    specs = [parse_arm(text) for text in texts]
    names = [spec.name for spec in specs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two arms have the name {twice[0]!r}")
    return specs
