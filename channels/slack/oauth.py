"""Installing the bot in a workspace: a link that counts once, consent at Slack, and a token in the vault.

Only an operator can start an installation: they make the link, and anyone can use it once within ten minutes. Slack
sends the person back with a code, which is exchanged for the workspace's token. An organisation-wide installation is
refused, as are tokens that rotate and fewer rights than the bot needs; a token granted by then is revoked.
"""

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

from aiohttp import web
from slack_sdk.web.async_client import AsyncWebClient

from channels.http import listening
from channels.port import ChannelVault, VaultError
from channels.slack.clients import Installation, Installations, logger
from channels.slack.errors import FAILURES, UNREADABLE
from channels.slack.errors import told as text_of
from channels.slack.setup import SCOPES

LINK_SECONDS: Final = 600
"""How long a link counts."""

INSTALLED: Final = "the bot is installed, this page can be closed"
NOT_OURS: Final = "this link counts no more, ask the operator of the bot for another one"
"""The answer to a link that was used, is too old, or never existed."""

NOT_AGREED: Final = "nothing was installed, as nobody agreed to it"
NOT_EXCHANGED: Final = "nothing was installed, as Slack did not confirm it, try again with another link"
NOT_KEPT: Final = "nothing was installed, as it cannot be kept now, try again with another link"
WHOLE_ORGANISATION: Final = "nothing was installed: this bot is installed in single workspaces, not in an organisation"
ROTATES: Final = "nothing was installed: the tokens of this Slack app rotate, make one anew from the bot's manifest"
TOO_LITTLE: Final = "nothing was installed: the bot needs more rights than it was given, among them {}"

_LONGEST: Final = 1000
_SECONDS: Final = 10
"""How long a call of Slack's may take."""

_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)


@dataclass(frozen=True, slots=True)
class OAuth:
    """The app as Slack knows it, and where a person is sent back to.

    `url` is that as it is on the internet, `host` and `port` are where to listen for it on this machine.
    """

    client_id: str
    client_secret: str = field(repr=False)
    url: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class InstallPage:
    """The page for a person who came back from Slack."""

    status: HTTPStatus
    text: str


class SlackInstaller:
    """Installs in workspaces. `server` is the Web API."""

    def __init__(self, oauth: OAuth, vault: ChannelVault, server: str) -> None:
        self._oauth = oauth
        self._vault = vault
        self.installations = Installations(vault)
        self._server = server

    async def link(self, state: str) -> str:
        """Return the address at which a person installs the bot. `state` is random, and unique to this link.

        Raises VaultError: it cannot be kept.
        """
        await self._vault.put(_name(state), b"asked", LINK_SECONDS)
        asked = {
            "client_id": self._oauth.client_id,
            "scope": ",".join(SCOPES),
            "redirect_uri": self._oauth.url,
            "state": state,
        }
        return f"{urljoin(self._server, '/oauth/v2/authorize')}?{urlencode(asked)}"

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Take people who come back from Slack while the block runs.

        Raises OSError: the address cannot be listened at.
        """

        async def back(request: web.Request) -> web.Response:
            page = await self.returned(request.query)
            return web.Response(status=page.status, text=f"{page.text}\n", headers=dict(_HEADERS))

        app = web.Application()
        app.router.add_get(urlsplit(self._oauth.url).path or "/", back)
        async with listening(app, self._oauth.host, self._oauth.port, _SECONDS):
            yield

    async def returned(self, query: Mapping[str, str]) -> InstallPage:
        """Take a person who comes back from Slack with these parameters, and return the page to show."""
        state, given = query.get("state", ""), query.get("code", "")
        try:
            if not await self._vault.swap(_name(state), b"asked", None):
                return InstallPage(HTTPStatus.FORBIDDEN, NOT_OURS)
            if not given or len(given) > _LONGEST:
                return InstallPage(HTTPStatus.OK, NOT_AGREED)
            return await self._exchanged(given)
        except VaultError:
            return InstallPage(HTTPStatus.SERVICE_UNAVAILABLE, NOT_KEPT)

    async def _exchanged(self, given: str) -> InstallPage:
        oauth = self._oauth
        try:
            told = await self._client().oauth_v2_access(
                client_id=oauth.client_id, client_secret=oauth.client_secret, code=given, redirect_uri=oauth.url
            )
        except FAILURES:
            return InstallPage(HTTPStatus.BAD_GATEWAY, NOT_EXCHANGED)
        try:
            token, problem = str(told.get("access_token") or ""), _problem(told)
            installation = None if problem else _installation(told, token)
        except UNREADABLE:
            return InstallPage(HTTPStatus.BAD_GATEWAY, NOT_EXCHANGED)
        if installation is not None:
            with suppress(VaultError):
                await self.installations.keep(installation)
                return InstallPage(HTTPStatus.OK, INSTALLED)
            problem = NOT_KEPT
        # A token that nobody keeps shall open nothing.
        with suppress(*FAILURES):
            await self._client(token).auth_revoke()
        return InstallPage(HTTPStatus.OK, problem)

    def _client(self, token: str | None = None) -> Any:  # noqa: ANN401 - the SDK's own types are not known
        return AsyncWebClient(token, base_url=self._server, timeout=_SECONDS, logger=logger(), retry_handlers=[])


def _installation(told: Any, token: str) -> Installation:  # noqa: ANN401 - as below
    enterprise: dict[str, Any] = told.get("enterprise") or {}
    return Installation(
        text_of(told, "team", "id"), token, text_of(told, "bot_user_id"), str(enterprise.get("id") or "")
    )


def _problem(told: Any) -> str:  # noqa: ANN401 - the SDK's own types are not known
    """Return why an installation cannot be used, empty if it can."""
    if told.get("is_enterprise_install") or not told.get("team"):
        return WHOLE_ORGANISATION
    if told.get("refresh_token"):
        return ROTATES
    lacking = sorted(set(SCOPES) - set(str(told.get("scope", "")).split(",")))
    return TOO_LITTLE.format(f"`{lacking[0]}`") if lacking else ""


def _name(state: str) -> str:
    # The store's names show no link that still counts.
    return f"slack/link/{hashlib.sha256(state.encode('utf-8', 'surrogatepass')).hexdigest()}"
