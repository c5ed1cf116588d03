"""Whose account a call uses: the one for all, or the asker's own. Nobody's is used for another.

The asker is the person whose words the turn answers. In a shared chat each turn uses its own asker's account. A session
without a chat, such as a run, uses one only if it belongs to its asker. A program has none. An account counts as long
as the platform's account that connected it is its person's, by the policy in force. So a blocked or unpaired person has
none from that moment.
"""

from dataclasses import dataclass
from typing import Final

from bot.access import principals
from bot.config.accounts.oauth import McpOAuthSettings
from bot.mcp.accounts.errors import AuthorizationError
from bot.mcp.accounts.records import SHARED, Account, AccountKey
from bot.mcp.accounts.tokens import AccountTokens
from bot.sessions.background.runs import UNREAD
from bot.sessions.deliveries import NewDelivery
from bot.tools.base import RefusedCallError, Result, ToolContext
from channels.messages import Address, OutboundKind
from policy.document.model import Document
from policy.document.programs import is_program

NOBODYS: Final = "this tool uses the asker's own account, and no person asks here for themselves"
"""The refusal where no person asks, or where the work belongs to another principal than its asker."""

TOLD_ALONE: Final = "this tool uses the asker's own account, and was not called; the reason was told to the asker alone"
CONNECT_FIRST: Final = (
    "You have no account at `{0}` here, so the tool was not called. "
    "To connect yours, write `/connect {0}` to me in a private chat."
)
CONNECT_YOURS: Final = (
    "the asker has no account at `{0}` here, so it was not called; `/connect {0}` in a private chat connects one"
)
NO_SHARED: Final = "nobody has logged in at the server of this tool; an operator does so with `lockgate mcp login {}`"
UNCONFIRMED: Final = "the account at the server of this tool cannot be confirmed now; try again later"

SHARED_OWNER: Final = "(shared)"
"""Names the account for all in the audit; no principal has this name."""


@dataclass(frozen=True, slots=True)
class UnusedAccount:
    """There is no account to use: the result of the call that was not made."""

    result: Result


class AccountUse:
    """Finds the account for calls of one server's tools."""

    def __init__(self, server: str, oauth: McpOAuthSettings, accounts: AccountTokens | None) -> None:
        self._server = server
        self._personal = oauth.personal
        self._accounts = accounts

    def owner(self, context: ToolContext) -> str:
        """Return whose account a call uses, as the audit names it.

        Raises RefusedCallError: it may use none.
        """
        if not self._personal:
            return SHARED_OWNER
        caller, home = context.caller, context.session.home
        belongs = principals.is_chat(caller.principal) if home.channel not in UNREAD else False
        if is_program(caller.asker) or not (belongs or caller.principal == caller.asker):
            raise RefusedCallError(NOBODYS)
        return caller.asker

    def asks_for_others(self, context: ToolContext) -> bool:
        """Say whether words of other people may have caused a call that uses the asker's own account.

        Such a call counts as consequential, so it needs the asker's approval.
        """
        return self._personal and bool(context.session.authors)

    async def usable(self, context: ToolContext) -> AccountKey | UnusedAccount:
        """Return the account for a call with a token that counts, or the result where there is none."""
        principal = context.caller.asker if self._personal else SHARED
        try:
            account = None if self._accounts is None else await self._accounts.current(self._server, principal)
        except AuthorizationError:
            return UnusedAccount(Result(UNCONFIRMED, failed=True))
        if account is None or not counts(account, context.document):
            return UnusedAccount(self._without(context))
        return account.key

    def _without(self, context: ToolContext) -> Result:
        """Return the result of a call without an account; in a shared chat, its reason is for the asker alone."""
        if not self._personal:
            return Result(NO_SHARED.format(self._server), failed=True)
        home = context.session.home
        there = None
        if principals.is_chat(context.caller.principal):
            there = principals.aside(context.document, context.caller.asker, home)
        if there is None:
            return Result(CONNECT_YOURS.format(self._server), failed=True)
        return Result(TOLD_ALONE, failed=True, deliver=(self._told(context, there),))

    def _told(self, context: ToolContext, there: Address) -> NewDelivery:
        return NewDelivery(
            f"{context.key}-account",
            str(there),
            CONNECT_FIRST.format(self._server),
            context.session.taint,
            OutboundKind.NOTICE,
            context.session.turn,
        )


def counts(account: Account, document: Document) -> bool:
    """Say whether an account is still its principal's: so is the platform's account that connected it."""
    if account.principal == SHARED:
        return True
    known = document.principal(account.by)
    return known is not None and known[0] == account.principal
