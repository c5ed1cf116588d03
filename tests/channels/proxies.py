"""A proxy that tells what it is asked for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def passing_on(port: int) -> AsyncGenerator[tuple[str, bytearray]]:
    """Run a proxy to a port of this machine; what it is asked for is told."""
    passed = bytearray()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, told: bytearray) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                told += data
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, there, passed), pump(back, writer, bytearray()))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", passed
