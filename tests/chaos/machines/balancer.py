"""A load balancer: programs come to one port, and each connection goes to a port of another machine than the last."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Final

_READ: Final = 1 << 16


@asynccontextmanager
async def balancer(ports: Sequence[int]) -> AsyncGenerator[int]:
    """Pass connections on to these ports, to the next one where nobody listens; return the port to come to."""
    turns = cycle(range(len(ports)))

    async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = next(turns)
        for port in (*ports[turn:], *ports[:turn]):
            try:
                up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pump(reader, up_writer))
                tasks.create_task(_pump(up_reader, writer))
            break
        writer.close()

    listening = await asyncio.start_server(come, "127.0.0.1", 0)
    try:
        yield int(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_READ):
            target.write(data)
            await target.drain()
    target.close()
