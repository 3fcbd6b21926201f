"""Traces over OTLP, for whoever sets an endpoint; without one, spans that are nothing.

The one place that knows OpenTelemetry. Its SDK is the extra `tracing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from multiverse_shared.errors import InvalidRequest

if TYPE_CHECKING:
    from opentelemetry import trace

TRACEPARENT = "traceparent"  # W3C Trace Context: the header, and its name in gRPC metadata
TRACES_PATH = "/v1/traces"
Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Kind: TypeAlias = Literal["server", "client", "internal"]


class Span:
    """One that nobody records, and the contract of those that are."""

    traceparent = ""  # names the span to other processes; empty: there is nothing to name

    def child(self, name: str, attributes: Mapping[str, Value] | None = None) -> Span:
        """A span inside this one, which begins now."""
        return self

    def set(self, attributes: Mapping[str, Value]) -> None:
        """Say more of it."""

    def event(self, name: str) -> None:
        """Something that happened inside, now."""

    def end(self, error: str = "") -> None:
        """It ends now; with an error, as a failure. Once."""


NO_SPAN = Span()


class Tracer:
    """Begins spans. This one records nothing."""

    def span(
        self,
        name: str,
        parent: str = "",
        kind: Kind = "internal",
        attributes: Mapping[str, Value] | None = None,
    ) -> Span:
        """A span that begins now, inside the one that a `traceparent` names, if one does."""
        return NO_SPAN


class _Recorded(Span):
    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        context = span.get_span_context()
        self._tracer = tracer
        self._span = span
        self.traceparent = (
            f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        )

    def child(self, name: str, attributes: Mapping[str, Value] | None = None) -> Span:
        from opentelemetry import trace

        inside = trace.set_span_in_context(self._span)
        span = self._tracer.start_span(name, inside, attributes=attributes)
        return _Recorded(self._tracer, span)

    def set(self, attributes: Mapping[str, Value]) -> None:
        self._span.set_attributes(attributes)

    def event(self, name: str) -> None:
        self._span.add_event(name)

    def end(self, error: str = "") -> None:
        from opentelemetry import trace

        if error:
            self._span.set_status(trace.StatusCode.ERROR, error)
        self._span.end()


class _Recorder(Tracer):
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def span(
        self,
        name: str,
        parent: str = "",
        kind: Kind = "internal",
        attributes: Mapping[str, Value] | None = None,
    ) -> Span:
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation import tracecontext

        carrier = {TRACEPARENT: parent}
        outside = tracecontext.TraceContextTextMapPropagator().extract(carrier, Context())
        of_kind = trace.SpanKind[kind.upper()]
        span = self._tracer.start_span(name, outside, of_kind, attributes)
        return _Recorded(self._tracer, span) if span.is_recording() else NO_SPAN


@contextmanager
def tracing(service: str, endpoint: str, share: float = 1.0) -> Iterator[Tracer]:
    """Sends the spans of `service` to `endpoint`, batch by batch, until the scope is left.

    `share` of the requests are recorded that come without a `traceparent`; those with one are
    recorded when it says so. Without an endpoint nothing is. InvalidRequest when the SDK is not
    installed.
    """
    if not endpoint:
        yield Tracer()
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
    except ImportError as error:
        raise InvalidRequest(
            f"traces need {error.name}: install the extra `tracing`, or set no endpoint",
            field="otlp_endpoint",
        ) from None
    provider = TracerProvider(
        resource=Resource.create({SERVICE_NAME: service}), sampler=ParentBasedTraceIdRatio(share)
    )
    exporter = OTLPSpanExporter(endpoint.rstrip("/") + TRACES_PATH)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield _Recorder(provider.get_tracer("multiverse"))
    finally:
        provider.shutdown()
