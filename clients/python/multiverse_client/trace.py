"""Takes the caller's trace along, where the caller has OpenTelemetry and is in a span."""

from __future__ import annotations


def trace_headers() -> dict[str, str]:
    """Headers (for gRPC: metadata) that name the present span; empty outside any."""
    try:
        from opentelemetry import propagate
    except ImportError:
        return {}
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers
