"""The client of Lockgate's HTTP API: made with an address and a token, and used within `async with`."""

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Final, Self
from urllib.parse import urlsplit

import httpx2
from pydantic import JsonValue

from lockgate.memories import Memories
from lockgate.oversight import Approvals, Audit, Grants, simulation
from lockgate.runs import Runs, Schedules
from lockgate.sessions import Sessions
from lockgate.shapes import Simulation, Whoami
from lockgate.transport import ClientRequest, Transport
from lockgate.webhooks import Webhooks
from lockgate.workflows import Workflows

_VERSION: Final = "/v1"

_KEPT_SECONDS: Final = 30.0
"""For how long an idle connection is kept: half as long as the API keeps it, so that none is used as it is closed."""


@cache
def _trust() -> ssl.SSLContext:
    """Return the certificates by which servers are known: to read them takes longer than many a request."""
    return httpx2.create_ssl_context()


class Client:
    """Drives sessions with a token; each call raises the errors of `lockgate.errors`.

    Args:
        url: where the API listens, as its log tells it; with or without `/v1` at its end.
        token: the text that `lockgate token create` printed.
        patience: the seconds for which a request or a stream is tried again while the API does not answer or has no
            room; 0 for no retry.

    Raises:
        ValueError: the address or the token cannot be one.
    """

    def __init__(self, url: str, token: str, *, patience: float = 30.0) -> None:
        place = urlsplit(url)
        if place.scheme not in {"http", "https"} or not place.netloc or place.query or place.fragment:
            raise ValueError(f"`{url}` is no address of an API, it looks like `https://bot.example.org`")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("this is no token: it is one word, as `lockgate token create` prints it")
        self._url = f"{url.rstrip('/').removesuffix(_VERSION)}{_VERSION}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._transport = Transport(patience)
        self.sessions = Sessions(self._transport)
        self.runs = Runs(self._transport)
        self.schedules = Schedules(self._transport)
        self.memories = Memories(self._transport)
        self.workflows = Workflows(self._transport)
        self.approvals = Approvals(self._transport)
        self.grants = Grants(self._transport)
        self.audit = Audit(self._transport)
        self.webhooks = Webhooks(self._transport)

    async def __aenter__(self) -> Self:
        # The first time certificates are read from the disk.
        trust = await asyncio.to_thread(_trust)
        self._transport.opened(
            httpx2.AsyncClient(
                base_url=self._url,
                headers=self._headers,
                verify=trust,
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=None, keepalive_expiry=_KEPT_SECONDS),
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.close()

    async def whoami(self) -> Whoami:
        """Return the name, rights and expiry of this token."""
        return await self._transport.value(ClientRequest("GET", "/whoami", repeatable=True), Whoami)

    async def simulate(self, tool: str, arguments: Mapping[str, JsonValue] | None = None) -> Simulation:
        """Return the gate's decision about a call in a session that has not begun; the call is not made.

        Args:
            tool: the name of the tool.
            arguments: its arguments; None for none.
        """
        return await self._transport.value(simulation("/simulate", tool, arguments), Simulation)
