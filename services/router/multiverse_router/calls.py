"""The spans of calls: each visit's own, inside that of its client where it names one."""

from __future__ import annotations

from collections.abc import Mapping

from multiverse_router.visit import Visit
from multiverse_shared.tracing import Tracer, Value


class Calls:
    """Of one router. `tracer` records nothing until the router runs and was told to trace."""

    def __init__(self) -> None:
        self.tracer = Tracer()

    def begin(
        self, visit: Visit, name: str, traceparent: str, attributes: Mapping[str, Value]
    ) -> None:
        """The visit's span begins; whoever ends the visit ends it."""
        known = {"multiverse.request_id": visit.id, **attributes}
        visit.span = self.tracer.span(name, traceparent, "server", known)
