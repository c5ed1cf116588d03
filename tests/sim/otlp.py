"""A receiver of traces on loopback: it keeps every byte that it was sent, and reads them as OTLP."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Value = str | int | bool


@dataclass(frozen=True)
class SeenSpan:
    """A span as it was received; ids are in hex, times in nanoseconds, `facts` without their common beginning."""

    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    failed: bool
    facts: dict[str, Value]


@dataclass
class Receiver:
    """What it answers: a status, or that after a delay; `bodies` and `headers` are those of each request.

    With `every` it answers without end, a part of that many bytes each `pause` seconds.
    """

    port: int = 0
    status: int = 200
    leads: str = ""
    delay: float = 0.0
    every: int = 0
    pause: float = 0.0
    sent: int = 0
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def endpoint(self) -> str:
        """What a configuration names."""
        return f"http://127.0.0.1:{self.port}/v1/traces"

    @property
    def spans(self) -> list[SeenSpan]:
        """All spans that came."""
        return [span for body in self.bodies for span in _read(body)]

    def named(self, name: str) -> list[SeenSpan]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]

    async def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until something holds of what came."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._came.clear()
                await self._came.wait()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Take one request."""
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.bodies.append(await request.read())
        self._came.set()
        await asyncio.sleep(self.delay)
        if self.leads:
            raise web.HTTPTemporaryRedirect(self.leads)
        if self.every:
            endless = web.StreamResponse(status=self.status)
            await endless.prepare(request)
            while True:
                await endless.write(b"x" * self.every)
                self.sent += self.every
                await asyncio.sleep(self.pause)
        return web.Response(status=self.status, content_type="application/x-protobuf")


@asynccontextmanager
async def receiver() -> AsyncGenerator[Receiver]:
    """Play a receiver on a loopback port."""
    server = Receiver()
    app = web.Application()
    app.router.add_post("/v1/traces", server.answer)
    app.router.add_post("/elsewhere", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = int(runner.addresses[0][1])
    try:
        yield server
    finally:
        await runner.cleanup()


def _read(body: bytes) -> list[SeenSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        SeenSpan(
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            bool(span.status.code),
            {
                one.key.removeprefix("lockgate."): getattr(one.value, one.value.WhichOneof("value") or "")
                for one in span.attributes
            },
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
