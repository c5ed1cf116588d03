"""A load balancer: programs come to one port, and each connection goes to a port of another machine than the last."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Final

_HERE: Final = "127.0.0.1"
_READ: Final = 1 << 16


@asynccontextmanager
async def balancer(ports: Sequence[int]) -> AsyncGenerator[int]:
    """Pass connections on to these ports, to the next one where nobody listens; return the port to come to."""
    turns = cycle(range(len(ports)))

    async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = next(turns)
        for port in (*ports[turn:], *ports[:turn]):
            try:
                up_reader, up_writer = await asyncio.open_connection(_HERE, port)
            except OSError:
                continue
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pump(reader, up_writer))
                tasks.create_task(_pump(up_reader, writer))
            break

    async with served(come) as port:
        yield port


@asynccontextmanager
async def served(
    come: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncGenerator[int]:
    """Serve connections at a port of its own, which it returns. At the end none of them is left open."""
    ongoing = set[asyncio.Task[None]]()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ongoing.add(task)
        try:
            with suppress(OSError):
                await come(reader, writer)
        finally:
            await closed(writer)
            ongoing.discard(task)

    listening = await asyncio.start_server(one, _HERE, 0)
    try:
        yield int(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        for task in ongoing:
            task.cancel()
        if ongoing:
            await asyncio.wait(ongoing)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and wait until it is."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while data := await source.read(_READ):
                target.write(data)
                await target.drain()
    finally:
        await closed(target)
