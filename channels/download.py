"""Files of a platform, fetched for the adapters.

Who sent a file chose what is in it, and what an adapter proves itself by goes along with what is asked for. So nothing
is asked of another address than the one given, and no more is read than was asked for. No error carries an address,
which may hold a token.
"""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

import aiohttp

from channels.base import ChannelError, LargeFileError

_CHUNK: Final = 65_536
_NOT_HAD: Final = "the platform did not hand out the file"


async def download(address: str, most: int, seconds: float, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Return what is at an address, of at most `most` bytes, all of it within `seconds`.

    Raises LargeFileError: it is larger. ChannelError: it is not there, elsewhere, or took too long.
    """
    whole = aiohttp.ClientTimeout(total=seconds)
    try:
        # A proxy that the environment names is used as for all that is asked of the platform.
        async with (
            aiohttp.ClientSession(timeout=whole, trust_env=True, auto_decompress=False) as session,
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
