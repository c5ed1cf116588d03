"""The sink that speaks OTLP over HTTP: spans as protobuf, posted to the address that config.yaml names.

OpenTelemetry's own library encodes them; the request is ours, so that no environment variable adds a header or another
address, no redirect is followed, and a sink that is away holds no thread. Imported when the first trace is sent.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import httpx2
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from bot.telemetry.telemetry import SentSpan, TelemetryError

_SECONDS: Final = 10.0
_RESOURCE: Final = Resource({"service.name": "lockgate"})
_SCOPE: Final = InstrumentationScope("lockgate")
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class OtlpSink:
    """Posts spans to `endpoint`, the whole address of an OTLP receiver for traces, with `headers`."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self._client = httpx2.AsyncClient(
            headers={**headers, "Content-Type": "application/x-protobuf"}, timeout=_SECONDS, follow_redirects=False
        )

    async def export(self, spans: Sequence[SentSpan]) -> None:
        """Send spans. Raises TelemetryError: they were not taken."""
        content = encode_spans([_readable(span) for span in spans]).SerializeToString()
        try:
            answer = await self._client.post(self._endpoint, content=content)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            # The words of the error may name the address, and that may hold a secret.
            raise TelemetryError(f"the receiver does not answer, {type(error).__name__}") from None
        if answer.status_code != HTTPStatus.OK:
            raise TelemetryError(f"the receiver answered {answer.status_code}")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _readable(sent: SentSpan) -> ReadableSpan:
    """Return a span as the library takes it."""
    span = sent.span
    parent = None if sent.parent is None else _context(sent.trace, sent.parent)
    attributes = {f"lockgate.{name}": value for name, value in span.facts.items()}
    if span.error:
        attributes["error.type"] = span.error
    return ReadableSpan(
        span.name,
        _context(sent.trace, sent.id),
        parent,
        _RESOURCE,
        attributes,
        status=Status(StatusCode.ERROR) if span.error else Status(StatusCode.UNSET),
        start_time=span.start,
        end_time=span.end,
        instrumentation_scope=_SCOPE,
    )


def _context(trace: bytes, span: bytes) -> SpanContext:
    return SpanContext(int.from_bytes(trace), int.from_bytes(span), is_remote=False, trace_flags=_SAMPLED)
