"""The clients that speak for the bot, one for each workspace it is installed in.

No client repeats a call by itself: what was said may have been said although its answer was lost.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from channels.base import GoneError
from channels.slack.failures import FAILURES, failure
from channels.slack.logs import logger

SERVER: Final = "https://slack.com/api/"

_CONNECT: Final = 5.0


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
    """Gives the client of a workspace. `token` is that of the one workspace, `server` is where the Web API is.

    `seconds` is how long a call may take.
    """

    def __init__(self, token: str, *, server: str = SERVER, seconds: float = 15.0) -> None:
        self._server = server if server.endswith("/") else f"{server}/"
        self._token = token
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
        home = await self.home()
        if home.team != team:
            raise GoneError("the app is not installed there")
        return home

    async def home(self) -> Workspace:
        """Return the workspace of the token.

        Raises ChannelError: nobody can tell now, or Slack does not accept it.
        """
        async with self._asking:
            if self._home is None:
                client = self.made(self._token)
                try:
                    me = await client.auth_test()
                except FAILURES as error:
                    raise failure(error) from None
                self._home = Workspace(str(me["team_id"]), str(me["user_id"]), str(me["bot_id"]), client)
            return self._home

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
