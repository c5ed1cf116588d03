"""A server on loopback that writes down recordings by OpenAI's protocol, or does what a test says."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import BodyPartReader, web


@dataclass
class Heard:
    """One request: whose key it bore, its fields, and the file's name, type and content."""

    key: str
    fields: dict[str, str] = field(default_factory=dict[str, str])
    name: str = ""
    media_type: str = ""
    content: bytes = b""


@dataclass
class Transcriber:
    """What it answers: a text, a whole body in its place, a status, where a redirect leads, or that after a delay."""

    port: int = 0
    text: str = "turn the tide"
    body: bytes | None = None
    status: int = 200
    leads: str = ""
    delay: float = 0.0
    heard: list[Heard] = field(default_factory=list[Heard])

    @property
    def base(self) -> str:
        """What a configuration names."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Take one recording."""
        heard = Heard(request.headers.get("Authorization", ""))
        self.heard.append(heard)
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            if part.filename:
                heard.name, heard.media_type = part.filename, part.headers.get("Content-Type", "")
                heard.content = bytes(await part.read())
            else:
                heard.fields[part.name or ""] = await part.text()
        await asyncio.sleep(self.delay)
        if self.leads:
            raise web.HTTPTemporaryRedirect(self.leads)
        if self.body is not None:
            return web.Response(body=self.body, status=self.status)
        return web.json_response({"text": self.text}, status=self.status)


@asynccontextmanager
async def transcriber() -> AsyncGenerator[Transcriber]:
    """Play a transcriber on a loopback port."""
    server = Transcriber()
    app = web.Application(client_max_size=100_000_000)
    app.router.add_post("/v1/audio/transcriptions", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = int(runner.addresses[0][1])
    try:
        yield server
    finally:
        await runner.cleanup()
