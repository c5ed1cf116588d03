"""One request to a web server, on a checked address: the request of `web_fetch` and of webhooks, and its answer.

The name is looked up once, every address it has is checked, and the connection is made to one of those. So the name
cannot mean another place a moment later. Certificates are checked against the name. No proxy, no cookies, no redirect
followed here. Errors use constant sentences.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from bot.tools.web.address import PORTS, WebAddress, is_ip, is_public

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncClient, Response

Resolve = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""Look a name up: its network addresses, in the order in which to try them.

Raises OSError: it has none.
"""

NOT_REACHED: Final = "the server cannot be reached"

_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 5.0
_ACCEPT: Final = "text/markdown, text/html;q=0.9, text/plain;q=0.9, */*;q=0.5"


class ConnectionRefusedHereError(Exception):
    """A request that is not made, or got no answer; its text is a constant."""


async def system_resolver(host: str, port: int) -> tuple[str, ...]:
    """Look a name up as the operating system does."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class Connector:
    """Asks web servers.

    `private` holds the network addresses, as (address, port), that may be connected to although they are not public.
    """

    def __init__(self, resolve: Resolve, private: frozenset[tuple[str, int]]) -> None:
        self._resolve = resolve
        self._private = private
        self._trust: ssl.SSLContext | None = None

    async def addresses(self, place: WebAddress) -> tuple[str, ...]:
        """Return the network addresses to connect to, every one of them checked.

        Raises ConnectionRefusedHereError: the name has none, or one that is not public.
        """
        try:
            found = (place.host,) if is_ip(place.host) else await self._resolve(place.host, place.port)
        except (OSError, UnicodeError):
            found = ()
        if not found:
            raise ConnectionRefusedHereError(NOT_REACHED)
        if all((address, place.port) in self._private for address in found):
            return found
        if not all(is_public(address) for address in found):
            raise ConnectionRefusedHereError("that is no public address, and only those are fetched")
        if place.port not in PORTS:
            raise ConnectionRefusedHereError(f"only the ports {', '.join(map(str, sorted(PORTS)))} are fetched")
        return found

    def is_safe_for_secrets(self, place: WebAddress, addresses: tuple[str, ...]) -> bool:
        """Say whether only that server can read a request to it."""
        return place.scheme == "https" or all((address, place.port) in self._private for address in addresses)

    @asynccontextmanager
    async def answer(
        self, place: WebAddress, addresses: tuple[str, ...], headers: Mapping[str, str], *, post: bytes | None = None
    ) -> AsyncGenerator["Response"]:
        """Ask the first of the addresses that can be connected to; the body is not read yet. With `post` that is sent.

        Raises ConnectionRefusedHereError: none can, or the server does not speak HTTP.
        """
        from httpx2 import HTTPError, InvalidURL

        async with AsyncExitStack() as stack:
            try:
                response = await self._first(stack, place, addresses, headers, post=post)
            except (HTTPError, InvalidURL, OSError, ValueError):
                raise ConnectionRefusedHereError(NOT_REACHED) from None
            try:
                yield response
            except (HTTPError, OSError):
                raise ConnectionRefusedHereError("the connection broke") from None

    async def _first(
        self,
        stack: AsyncExitStack,
        place: WebAddress,
        addresses: tuple[str, ...],
        headers: Mapping[str, str],
        *,
        post: bytes | None,
    ) -> "Response":
        from httpx2 import ConnectError, ConnectTimeout

        client = await stack.enter_async_context(await self._client())
        asked = {
            "User-Agent": "lockgate",
            "Accept": _ACCEPT,
            **headers,
            "Accept-Encoding": "gzip, identity",
            "Host": place.authority,
        }
        # The certificate is checked against the name, although the connection goes to the address.
        extensions = {"sni_hostname": place.host} if place.scheme == "https" else {}
        method = "GET" if post is None else "POST"

        async def answer(address: str) -> "Response":
            asking = client.stream(method, place.at(address), headers=asked, content=post, extensions=extensions)
            return await stack.enter_async_context(asking)

        *others, last = addresses
        for address in others:
            with suppress(ConnectError, ConnectTimeout):
                return await answer(address)
        return await answer(last)

    async def _client(self) -> "AsyncClient":
        if self._trust is None:
            self._trust = await asyncio.to_thread(_trust)
        from httpx2 import AsyncClient, Timeout

        return AsyncClient(
            verify=self._trust,
            trust_env=False,
            follow_redirects=False,
            timeout=Timeout(_SECONDS, connect=_CONNECT_SECONDS),
        )


def _trust() -> "ssl.SSLContext":
    """Return the trusted certificates: the operating system's. It reads files and imports the library."""
    from bot.core.trust import trust

    return trust(environment=False)
