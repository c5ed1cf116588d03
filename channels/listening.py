"""Listening on this machine for what platforms tell over the internet."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int, patience: float) -> AsyncGenerator[None]:
    """Serve an application while the block runs; at its end what is being answered has `patience` seconds left.

    No address that was asked for is logged: it may hold a secret. Raises OSError: nobody can listen there.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=patience)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
