"""The clients that speak for the bot, one for each workspace it is installed in.

No client repeats a call by itself: what was said may have been said although its answer was lost.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from channels.base import ChannelError, GoneError
from channels.slack.failures import FAILURES, code, failure, told
from channels.slack.installed import Installation, Installations
from channels.slack.logs import logger

SERVER: Final = "https://slack.com/api/"

_CONNECT: Final = 5.0
_ENDED: Final = frozenset({"account_inactive", "invalid_auth", "token_revoked"})
"""What Slack calls a token that was good and counts no more."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace that the bot is installed in: its id, the bot's account there, and the client that speaks there.

    The client is an `AsyncWebClient`, of whose methods the library does not tell the types.
    """

    team: str
    user: str
    bot: str
    client: Any = field(repr=False, compare=False)


class Clients:
    """Gives the client of a workspace. `token` is that of the one workspace that gave it to the operator, if any did.

    Others have `installations`. `server` is where the Web API is, `seconds` how long a call may take.
    """

    def __init__(
        self,
        token: str,
        *,
        installations: Installations | None = None,
        server: str = SERVER,
        seconds: float = 15.0,
    ) -> None:
        self._server = server
        self._token = token
        self._installations = installations
        self._there: dict[str, tuple[Installation, Workspace]] = {}
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None
        self._home: Workspace | None = None
        self._asking = asyncio.Lock()

    async def of(self, team: str) -> Any:  # noqa: ANN401 - as in `Workspace`
        """Return the client of a workspace.

        Raises GoneError: the bot is not installed there. ChannelError: nobody can tell now.
        """
        return (await self.workspace(team)).client

    async def workspace(self, team: str) -> Workspace:
        """Return what the bot is in a workspace.

        Raises GoneError: it is not installed there. ChannelError: nobody can tell now.
        """
        if self._home is not None and self._home.team == team:
            return self._home
        installed = None if self._installations is None else await self._installations.of(team)
        if installed is None:
            self._there.pop(team, None)
            # Asked for last: where that token counts no more, the other workspaces are there.
            if self._token and (home := await self.home()).team == team:
                return home
            raise GoneError("the app is not installed there")
        async with self._asking:
            known = self._there.get(team)
            if known is None or known[0] != installed:
                known = self._there[team] = (installed, await self._asked(installed.token))
        if known[1].team != team:
            raise ChannelError("the token that is kept is another workspace's")
        return known[1]

    async def home(self) -> Workspace:
        """Return the workspace of the token.

        Raises GoneError: it took the bot off. ChannelError: nobody can tell now, or Slack does not accept the token.
        """
        async with self._asking:
            if self._home is None:
                self._home = await self._asked(self._token)
            return self._home

    async def taken_off(self, team: str) -> None:
        """Forget a workspace of which Slack told that the bot was taken off it, if its token counts no more.

        That is told late at times, and again, when somebody may have installed anew.
        Raises ChannelError: nobody can tell now, so Slack must tell it again.
        """
        if self._home is not None and self._home.team == team:
            self._home = None
        installed = None if self._installations is None else await self._installations.of(team)
        if self._installations is None or installed is None:
            return
        try:
            await self.made(installed.token).auth_test()
        except FAILURES as error:
            if code(error) not in _ENDED:
                raise failure(error) from None
            await self._installations.forget(installed)

    async def _asked(self, token: str) -> Workspace:
        """Ask Slack what a token is for."""
        client = self.made(token)
        try:
            me = await client.auth_test()
            return Workspace(told(me, "team_id"), told(me, "user_id"), told(me, "bot_id"), client)
        except FAILURES as error:
            raise failure(error) from None

    def made(self, token: str) -> Any:  # noqa: ANN401 - as in `Workspace`
        """Return a client for a token, on the connections that all of them share."""
        return AsyncWebClient(
            token or None,
            base_url=self._server,
            timeout=max(1, round(self._seconds)),
            session=self.session(),
            logger=logger(),
            retry_handlers=[],
        )

    @property
    def address(self) -> str:
        """Host and port of the Web API."""
        return urlsplit(self._server).netloc

    @property
    def proxy(self) -> str | None:
        """The proxy that the environment names, by which the SDK makes its calls."""
        found: str | None = self.made("").proxy
        return found

    def session(self) -> aiohttp.ClientSession:
        """Return the connections that all clients share."""
        if self._session is None or self._session.closed:
            limits = aiohttp.ClientTimeout(total=self._seconds, sock_connect=min(self._seconds, _CONNECT))
            self._session = aiohttp.ClientSession(timeout=limits)
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
