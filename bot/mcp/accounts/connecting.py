"""Connecting an account: a link that counts once, a person who comes back by it, a code that its principal types.

Another person may be made to follow a link, or follow it on purpose. So the account that comes back does not count yet.
The page shows a code, and the person of the link types it in a private chat. Where the issuer tells the account's name,
the person sees the name before the account counts.
"""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from bot.config.mcp import McpServerSettings
from bot.core.clock import Clock
from bot.core.errors import OperatorError, RequestError, StoreError
from bot.core.ids import Ids
from bot.mcp.accounts.errors import AuthorizationError, GrantRefusedError
from bot.mcp.accounts.records import SHARED, Account, Link, Registration, Unconfirmed
from bot.mcp.accounts.store import LINK_SECONDS, AccountStore
from bot.mcp.accounts.tokens import AccountTokens
from bot.sessions.audit import AuditRow
from bot.sessions.ports.people import AuditStore

if TYPE_CHECKING:
    from bot.mcp.accounts.authorization import Authorization, FoundIssuer

TRIES: Final = 5
"""The number of codes that may be tried for one account."""

NOT_OURS: Final = "This link is not valid any more. Ask the bot for another one."
"""The page for a link that was used, is too old, or never existed."""

NOT_AGREED: Final = "No account was connected, because nobody agreed to it."
NOT_CONFIRMED: Final = "No account was connected, because the server did not confirm it. Ask the bot for another link."
NOT_KEPT: Final = "No account was connected, because it cannot be stored now. Ask the bot for another link."
SHARED_CONNECTED: Final = "The account is connected. You can close this page."
TYPE_THE_CODE: Final = (
    "One step is left. If you asked the bot for this link, write this to it in a private chat:\n\n"
    "/connect {server} {code}\n\n"
    "If another person gave you the link, close this page and tell nobody the code: they would use your account."
)

WRONG_CODE: Final = "invalid or expired code"
_NONE_THERE: Final = "you have no account at `{}` here"

_LONGEST: Final = 2000
_LOGGER: Final = logging.getLogger(__name__)


class AccountError(RequestError):
    """An account cannot be connected or disconnected; its sentence is shown to its person."""

    code = "command"


@dataclass(frozen=True, slots=True)
class ReturnAnswer:
    """The page for a person who came back.

    Args:
        status: The status of the answer.
        text: The text of the page.
        done: Whether the account is connected.
        settles: Whether the person came by a link that counted, so that it counts no more.
    """

    status: HTTPStatus
    text: str
    done: bool = False
    settles: bool = True


class AccountLinks:
    """Connects and disconnects accounts."""

    def __init__(
        self,
        settings: Mapping[str, McpServerSettings],
        tokens: AccountTokens,
        store: AccountStore,
        audit: AuditStore,
        *,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._settings = settings
        self._tokens = tokens
        self._store = store
        self._audit = audit
        self._clock = clock
        self._ids = ids

    @property
    def personal(self) -> tuple[str, ...]:
        """The servers where each person uses an account of their own."""
        return tuple(name for name, one in self._settings.items() if one.oauth is not None and one.oauth.personal)

    async def link(self, server: str, principal: str, by: str, redirect: str, *, lasting: bool) -> str:
        """Return the address at which a person consents, for a principal or `SHARED`.

        Args:
            server: The server's name.
            principal: The principal whose account it becomes.
            by: The platform's account that asks for it.
            redirect: Where the person comes back to.
            lasting: Whether that address stays the same, so that a client that was registered for it is used again.

        Raises:
            AuthorizationError: the server's issuer cannot be used.
            StoreError: the link cannot be kept.
        """
        authorization = await self._tokens.authorization(server)
        found = await authorization.find()
        client = await self._client(server, authorization, found, redirect, lasting=lasting)
        state = self._ids.secret()
        address, verifier = authorization.consent(client, found, state)
        url = self._settings[server].url or ""
        link = Link(server, url, principal, by, client, found.resource, found.scope, verifier)
        await self._store.offer(state, link)
        await self._note(principal, "link", server)
        return address

    async def returned(self, query: Mapping[str, str]) -> ReturnAnswer:
        """Take a person who comes back with these parameters, and return the page to show."""
        state = query.get("state", "")
        try:
            link = await self._store.take(state) if 0 < len(state) <= _LONGEST else None
            if link is None or not self._is_wanted(link):
                return ReturnAnswer(HTTPStatus.FORBIDDEN, NOT_OURS, settles=False)
            return await self._came(link, query)
        except StoreError:
            return ReturnAnswer(HTTPStatus.SERVICE_UNAVAILABLE, NOT_KEPT)

    async def _came(self, link: Link, query: Mapping[str, str]) -> ReturnAnswer:
        """Take a person who came back by a link. Raises StoreError: their account cannot be kept."""
        code, named = query.get("code", ""), query.get("iss")
        # RFC 9207: another issuer than the asked one may have sent them.
        expected = link.registration
        if expected.names_issuer if named is None else named != expected.issuer:
            error = AuthorizationError("a person came back from another issuer than the one of their link")
            log_cause(link.server, error)
            return ReturnAnswer(HTTPStatus.FORBIDDEN, NOT_CONFIRMED)
        if not 0 < len(code) <= _LONGEST:
            return ReturnAnswer(HTTPStatus.OK, NOT_AGREED)
        try:
            return await self._exchanged(link, code)
        except (AuthorizationError, GrantRefusedError) as error:
            log_cause(link.server, error)
            return ReturnAnswer(HTTPStatus.BAD_GATEWAY, NOT_CONFIRMED)

    async def confirm(self, server: str, principal: str, code: str, *, sure: bool) -> str | None:
        """Connect the account whose page showed a code; return its name if its person has yet to see that, else None.

        Raises:
            AccountError: the code is not valid.
            StoreError: the account cannot be kept.
        """
        waiting = await self._tried(server, principal)
        if waiting is None:
            raise AccountError(WRONG_CODE)
        if not hmac.compare_digest(waiting.digest, _digest(waiting.account, code)):
            if not waiting.tries and await self._store.settle(waiting, None):
                await self._given_back(waiting.account)
            raise AccountError(WRONG_CODE)
        if waiting.account.name and not sure:
            # The right code costs no try.
            await self._store.settle(waiting, replace(waiting, tries=waiting.tries + 1), self._left(waiting))
            return waiting.account.name
        if not await self._store.settle(waiting, None):
            raise AccountError(WRONG_CODE)
        await self._connected(waiting.account)
        return None

    async def disconnect(self, server: str, principal: str) -> None:
        """Delete the account of a principal at a server, and give its tokens back there if the issuer takes them.

        Raises:
            AccountError: there is none.
            StoreError: it cannot be deleted.
        """
        account = await self._store.account(server, principal)
        waiting = await self._store.unconfirmed(server, principal)
        if waiting is not None and await self._store.settle(waiting, None):
            await self._given_back(waiting.account)
        while account is not None:
            if await self._store.replace(account, None):
                await self._note(principal, "disconnected", server)
                await self._given_back(account)
                return
            # Another process renewed its token meanwhile.
            account = await self._store.account(server, principal)
        raise AccountError(_NONE_THERE.format(server))

    async def _tried(self, server: str, principal: str) -> Unconfirmed | None:
        """Return the account that waits for its code, with a try less, None if no code counts any more.

        The try is counted before the code is looked at: else codes that are tried at once would cost one together.
        """
        while (waiting := await self._store.unconfirmed(server, principal)) is not None:
            over = waiting.tries < 1 or self._left(waiting) <= 0
            less = None if over else replace(waiting, tries=waiting.tries - 1)
            if not await self._store.settle(waiting, less, self._left(waiting)):
                continue
            if less is None:
                await self._given_back(waiting.account)
            return less
        return None

    def _left(self, waiting: Unconfirmed) -> float:
        """Return the seconds for which a code still counts."""
        return (waiting.ends - self._clock.wall_ms()) / 1000

    async def _exchanged(self, link: Link, code: str) -> ReturnAnswer:
        authorization = await self._tokens.authorization(link.server)
        tokens = await authorization.exchange(link, code)
        now = self._clock.wall_ms()
        account = Account(
            id=self._ids.owner(),
            server=link.server,
            url=link.url,
            principal=link.principal,
            by=link.by,
            name=tokens.name,
            since=now,
            registration=link.registration,
            resource=link.resource,
            scope=tokens.scope or link.scope,
            ends=now + tokens.seconds * 1000 if tokens.seconds else 0,
            access=tokens.access,
            refresh=tokens.refresh,
        )
        try:
            return await self._received(account)
        except StoreError:
            # A token that nobody keeps shall open nothing.
            await self._given_back(account)
            raise

    async def _received(self, account: Account) -> ReturnAnswer:
        if account.principal == SHARED:
            await self._connected(account)
            return ReturnAnswer(HTTPStatus.OK, SHARED_CONNECTED, done=True)
        code = self._ids.approval()
        ends = account.since + LINK_SECONDS * 1000
        before = await self._store.wait_for(Unconfirmed(account, _digest(account, code), TRIES, ends))
        if before is not None:
            await self._given_back(before.account)
        return ReturnAnswer(HTTPStatus.OK, TYPE_THE_CODE.format(server=account.server, code=code))

    async def _connected(self, account: Account) -> None:
        await self._note(account.principal, "connected", account.server)
        before = await self._store.keep(account)
        if before is not None:
            await self._given_back(before)

    async def _given_back(self, account: Account) -> None:
        """Give tokens back to their issuer; one that does not answer lets them run out."""
        if account.server not in self._settings or self._settings[account.server].url != account.url:
            return
        with suppress(AuthorizationError, KeyError):
            await (await self._tokens.authorization(account.server)).revoke(account)

    async def _note(self, principal: str, what: str, server: str) -> None:
        body = {"what": what, "server": server}
        await self._audit.append((AuditRow("mcp_account", principal or "shared", body),))

    async def _client(
        self, server: str, authorization: "Authorization", found: "FoundIssuer", redirect: str, *, lasting: bool
    ) -> Registration:
        """Return the client for a link; one that was registered earlier is used with its issuer's addresses of now."""
        # A client of the configuration costs no request, so it is never a stored one.
        if not lasting or authorization.has_client:
            return await authorization.register(found, redirect)
        names = (server, str(found.metadata.issuer), redirect)
        client = await self._store.registration(*names)
        if client is None or self._is_over(client):
            client = await authorization.register(found, redirect)
            await self._store.register(client, *names)
        return authorization.anew(client, found)

    def _is_wanted(self, link: Link) -> bool:
        """Say whether the configuration still has the server as it was when the link was made."""
        settings = self._settings.get(link.server)
        if settings is None or settings.oauth is None or settings.url != link.url:
            return False
        return settings.oauth.personal is (link.principal != SHARED)

    def _is_over(self, client: Registration) -> bool:
        return bool(client.ends) and self._clock.wall_ms() >= client.ends * 1000


def log_cause(server: str, error: OperatorError) -> None:
    """Tell operators why an issuer could not be used; its person is told a constant."""
    extra = {"subject": f"MCP server `{server}`", "cause": str(error), "step": error.next_step}
    _LOGGER.warning("an account could not be connected", extra=extra)


def _digest(account: Account, code: str) -> str:
    return hashlib.sha256(f"{account.id}\0{code}".encode("utf-8", "surrogatepass")).hexdigest()
