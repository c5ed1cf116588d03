"""The workspaces that the bot is installed in: the token that each gave it, and the client that speaks there.

A workspace's id is its own in all of Slack, so it alone finds an installation; the organisation it belongs to is kept
beside. Tokens are kept in the vault and come out of it only to make a client. They are in headers and in the addresses
of sockets, which the libraries log, so `logger` takes them out.

No client repeats a call by itself: Slack may have done a call whose answer was lost.
"""

import asyncio
import json
import logging
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from channels.port import ChannelError, ChannelVault, GoneError
from channels.slack.errors import FAILURES, code, failure, told

_SECRET: Final = re.compile(r"\b(?:xox[a-z]|xoxe\.xox[a-z]|xapp)-[\w.-]+|(?<=ticket=)[\w-]+|(?<=/response/)\S+")
_HOOK: Final = re.compile(r"(?<=hooks\.slack\.com/)[^\s\"']+")


def logger() -> logging.Logger:
    """Return the logger for everything of the libraries: warnings only, and no token where it may log more."""
    made = logging.getLogger("slack")
    if made.level == logging.NOTSET:
        made.setLevel(logging.WARNING)
    if not any(isinstance(one, _Redaction) for one in made.filters):
        made.addFilter(_Redaction())
    return made


class _Redaction(logging.Filter):
    """Takes tokens out of log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without its tokens and without the libraries' texts of an error."""
        told = _HOOK.sub("<hook>", _SECRET.sub("<token>", record.getMessage()))
        record.msg, record.args, record.exc_info = told, None, None
        return True


_PREFIX: Final = "slack/installed/"


@dataclass(frozen=True, slots=True)
class Installation:
    """A workspace with the bot in it: `bot` is the bot's account there, `enterprise` the organisation if it has one."""

    team: str
    token: str = field(repr=False)
    bot: str
    enterprise: str = ""


class Installations:
    """The installations of all workspaces. Every method raises VaultError."""

    def __init__(self, vault: ChannelVault) -> None:
        self._vault = vault

    async def of(self, team: str) -> Installation | None:
        """Return a workspace's installation, None if it has none."""
        kept = await self._vault.get(_PREFIX + team)
        return None if kept is None else Installation(**json.loads(kept))

    async def keep(self, installation: Installation) -> None:
        """Keep an installation, in place of an earlier one of that workspace."""
        await self._vault.put(_PREFIX + installation.team, _written(installation))

    async def forget(self, installation: Installation) -> None:
        """Forget an installation, unless another took its place meanwhile."""
        await self._vault.swap(_PREFIX + installation.team, _written(installation), None)

    async def teams(self) -> tuple[str, ...]:
        """Return the workspaces that have one."""
        return tuple(name.removeprefix(_PREFIX) for name in await self._vault.names(_PREFIX))


def _written(installation: Installation) -> bytes:
    return json.dumps(asdict(installation), sort_keys=True).encode()


SERVER: Final = "https://slack.com/api/"

_CONNECT: Final = 5.0
_ENDED: Final = frozenset({"account_inactive", "invalid_auth", "token_revoked"})
"""Slack's errors for a token that was valid and no longer is."""


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
    """Gives the client of a workspace. `token` is the token of the operator's own workspace, if there is one.

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

        Raises:
            GoneError: the bot is not installed there.
            ChannelError: Slack does not tell now.
        """
        return (await self.workspace(team)).client

    async def workspace(self, team: str) -> Workspace:
        """Return the bot's identity in a workspace.

        Raises:
            GoneError: it is not installed there.
            ChannelError: Slack does not tell now.
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

        Raises:
            GoneError: it took the bot off.
            ChannelError: Slack does not tell now, or does not accept the token.
        """
        async with self._asking:
            if self._home is None:
                self._home = await self._asked(self._token)
            return self._home

    async def taken_off(self, team: str) -> None:
        """Forget a workspace that took the bot off, as Slack told, if its token is no longer valid.

        Slack sends that event late at times, and repeatedly, when the workspace may have installed it anew.
        Raises ChannelError: Slack does not tell now, so it must send the event again.
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
