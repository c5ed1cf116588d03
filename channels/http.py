"""The HTTP code that the adapters share: listening on this machine, fetching files, and comparing clocks.

The sender of a file chose its content, and the request carries the adapter's secret. So no other address is asked than
the one given, and no more is read than was asked for. No error carries an address, which may hold a token.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp import web

from channels.port import ChannelError, LargeFileError, Trouble


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int, patience: float) -> AsyncGenerator[None]:
    """Serve an application while the block runs; at its end, open requests have `patience` seconds left.

    No address that was asked for is logged: it may hold a secret. Raises OSError: the address cannot be listened at.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=patience)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()


def named_proxy(address: str) -> str | None:
    """Return the proxy that the environment names for an address, None if it names none.

    The HTTP library can find it by itself. But then it reads `~/.netrc` for every call, and sends a password of it.
    """
    asked = urlsplit(address)
    return None if proxy_bypass(asked.hostname or "") else getproxies().get(asked.scheme)


_CHUNK: Final = 65_536
_NOT_HAD: Final = "the platform did not hand out the file"


async def download(address: str, most: int, seconds: float, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Return the body at an address, of at most `most` bytes, all of it within `seconds`.

    Raises:
        LargeFileError: it is larger.
        ChannelError: it is not there, elsewhere, or took too long.
    """
    whole = aiohttp.ClientTimeout(total=seconds)
    try:
        # A proxy that the environment names is used as for all that is asked of the platform.
        async with (
            aiohttp.ClientSession(timeout=whole, proxy=named_proxy(address), auto_decompress=False) as session,
            session.get(address, headers={**headers, "Accept-Encoding": "identity"}, allow_redirects=False) as answer,
        ):
            if answer.status != HTTPStatus.OK:
                raise ChannelError(_NOT_HAD)
            return await _read(answer.content, most)
    except (aiohttp.ClientError, OSError, ValueError):
        raise ChannelError(_NOT_HAD) from None


async def _read(content: aiohttp.StreamReader, most: int) -> bytes:
    taken = bytearray()
    async for chunk in content.iter_chunked(_CHUNK):
        taken += chunk
        if len(taken) > most:
            raise LargeFileError(most)
    return bytes(taken)


_SKEW: Final = 60
"""Seconds; answers take their time, too."""


def skewed(headers: Mapping[str, str], now_ms: int, meant: str) -> tuple[Trouble, ...]:
    """Return the trouble of a clock that shows `now_ms`, in milliseconds since 1970, nothing if it is right.

    `headers` are those of an answer that just came, by names in lower case. `meant` tells the consequence of a wrong
    clock there.
    """
    try:
        away = now_ms / 1000 - parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (TypeError, ValueError):
        return ()
    if abs(away) <= _SKEW:
        return ()
    told = f"the clock of this machine is {abs(away):.0f} s {'ahead' if away > 0 else 'behind'}"
    return (Trouble(told, f"let it be set over the network, {meant}"),)
