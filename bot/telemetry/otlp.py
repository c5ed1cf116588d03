"""The sink that speaks OTLP over HTTP: spans as protobuf, posted to the address that config.yaml names.

OpenTelemetry's own library encodes them; the request is ours. So no environment variable adds a header or another
address, no redirect is followed, and an absent sink holds no thread. A sink that dawdles, or answers without end, holds
up no other batch for long. Imported when the first trace is sent.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import anyio
import httpx2
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from bot.core.trust import trust
from bot.telemetry.telemetry import SentSpan, TelemetryError

_MOST: Final = 64 * 1024
"""Bytes of an answer that are looked at; one with more gives up its connection."""
_RESOURCE: Final = Resource({"service.name": "lockgate"})
_SCOPE: Final = InstrumentationScope("lockgate")
_TAKEN: Final = range(200, 300)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class OtlpSink:
    """Posts spans to `endpoint`, the whole address of an OTLP receiver for traces, with `headers`.

    An export may take `seconds` in all.
    """

    def __init__(self, endpoint: str, headers: Mapping[str, str], seconds: float = 10.0) -> None:
        self._endpoint = endpoint
        self._seconds = seconds
        self._client = httpx2.AsyncClient(
            headers={**headers, "Content-Type": "application/x-protobuf"},
            timeout=seconds,
            follow_redirects=False,
            # With a transport of its own no proxy of the environment is asked.
            transport=httpx2.AsyncHTTPTransport(verify=trust()),
        )

    async def export(self, spans: Sequence[SentSpan]) -> None:
        """Send spans. Raises TelemetryError: they were not taken."""
        content = encode_spans([_readable(span) for span in spans]).SerializeToString()
        try:
            with anyio.fail_after(self._seconds):
                status = await self._post(content)
        except TimeoutError:
            raise TelemetryError(f"the receiver does not answer within {self._seconds:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            # The words of the error may name the address, and that may hold a secret.
            raise TelemetryError(f"the receiver does not answer, {type(error).__name__}") from None
        if status not in _TAKEN:
            raise TelemetryError(f"the receiver answered {status}")

    async def _post(self, content: bytes) -> int:
        """Send bytes and return the status that is answered."""
        async with self._client.stream("POST", self._endpoint, content=content) as answer:
            size = 0
            async for part in answer.aiter_raw():
                size += len(part)
                if size > _MOST:
                    break
            return answer.status_code

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
