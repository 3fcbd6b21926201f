"""How long an engine step takes: a pure model over measured curves.

    step = max(curve(1), curve(k) + p / prefill rate + c * context cost)

with k decoding branches, p tokens of prefill and c tokens of context that the branches attend
to. `curve` is interpolated linearly between measured batches and goes on with its last slope.
The prefill rates and the cost of context were not measured: whoever simulates states them.
Knows no clock; a discrete-event simulation may use it as it is.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from importlib import resources

from multiverse_shared.errors import InvalidRequest

_TABLE = "data/step_times.json"


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One machine. `curve` is (branches, milliseconds), ascending, at least two points."""

    curve: tuple[tuple[int, float], ...]
    prefill_tokens_per_s: float
    context_ms_per_1000: float = 0.0

    @classmethod
    def of(
        cls, machine: str, prefill_tokens_per_s: float, context_ms_per_1000: float = 0.0
    ) -> StepTimes:
        """A machine of the table; InvalidRequest lists those that it has."""
        source = resources.files("multiverse_worker.engines.sim") / _TABLE
        curves = json.loads(source.read_text("utf-8"))["curves"]
        if machine not in curves:
            known = ", ".join(sorted(curves))
            raise InvalidRequest(f"unknown machine {machine!r}; known: {known}", field="machine")
        points = tuple((int(k), float(ms)) for k, ms in curves[machine]["step_ms"])
        rate = curves[machine]["prefill_tokens_per_s"] or prefill_tokens_per_s
        return cls(points, rate, context_ms_per_1000)

    def step_ms(self, decoding: int, prefill: int = 0, context: int = 0) -> float:
        """Milliseconds of a step; 0 when there is nothing to compute."""
        if not decoding and not prefill:
            return 0.0
        least = self._decode_ms(1)
        own = self._decode_ms(decoding) if decoding else 0.0
        more = 1000.0 * prefill / self.prefill_tokens_per_s
        return max(least, own + more + self.context_ms_per_1000 * context / 1000)

    def _decode_ms(self, branches: int) -> float:
        right = bisect_left(self.curve, (branches, 0.0))
        right = min(max(right, 1), len(self.curve) - 1)
        (k0, ms0), (k1, ms1) = self.curve[right - 1 : right + 1]
        return ms0 + (branches - k0) * (ms1 - ms0) / (k1 - k0)
