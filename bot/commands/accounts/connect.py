"""`/connect` and `/disconnect`: the caller's own accounts at MCP servers, in a private chat."""

from dataclasses import dataclass, replace
from typing import Final

from bot.access import principals
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.core.clock import moment
from bot.gate.gate import Gate
from bot.mcp.accounts.connecting import AccountLinks, log_cause
from bot.mcp.accounts.errors import AuthorizationError
from bot.mcp.accounts.returns import ReturnPlace
from bot.mcp.accounts.tokens import AccountTokens
from bot.mcp.accounts.use import counts
from policy.document.programs import is_program
from policy.errors import nearest

IN_PRIVATE: Final = "Write this in a private chat."
NONE: Final = "No server here uses accounts of people."
LINK: Final = (
    "Open this link within ten minutes, and agree there. It counts once, and it is for you alone.\n{address}\n"
    "The page that follows shows a code to type here."
)
HERE: Final = "The link works in a browser on the machine of this bot only."
IS_IT_YOURS: Final = "This is the account `{name}`. If it is yours, write `/connect {server} {code} confirm`."
CONNECTED: Final = "Your account at `{server}` is connected. The agent uses it for you alone."
DISCONNECTED: Final = "Your account at `{server}` is disconnected, and its tokens are deleted."
UNREACHED: Final = "The server `{server}` cannot connect accounts now. Its operator finds the cause in the log."
UNKNOWN: Final = "unknown server `{}`{}"


@dataclass(frozen=True, slots=True)
class AccountCommands:
    """Connect and disconnect the caller's own accounts."""

    links: AccountLinks
    tokens: AccountTokens
    returns: ReturnPlace
    gate: Gate

    async def connect(self, request: CommandRequest, argument: str) -> Reply:
        """List the caller's accounts, make a link for one, or take the code of a page."""
        by = await self._account(request)
        match argument.split():
            case [] | ["list"]:
                return await self._list(request.caller.principal)
            case [server]:
                return await self._link(request, self._known(server), by)
            case [server, code]:
                return await self._confirm(request, self._known(server), code, sure=False)
            case [server, code, "confirm"]:
                return await self._confirm(request, self._known(server), code, sure=True)
            case _:
                raise UsageError("")

    async def disconnect(self, request: CommandRequest, argument: str) -> Reply:
        """Delete the caller's account at a server, and give its tokens back."""
        await self._account(request)
        match argument.split():
            case [server]:
                await self.links.disconnect(self._known(server), request.caller.principal)
                return Reply(DISCONNECTED.format(server=server))
            case _:
                raise UsageError("")

    async def _list(self, principal: str) -> Reply:
        lines = [await self._told(server, principal) for server in self.links.personal]
        return Reply("\n".join(lines) or NONE)

    async def _told(self, server: str, principal: str) -> str:
        account = await self.tokens.held(server, principal)
        if account is None:
            return f"`{server}`: not connected, `/connect {server}` does that."
        if not counts(account, self.gate.document):
            # Its name may be another person's.
            return f"`{server}`: connected by an account that is not yours any more, so it is not used."
        name = f" as `{account.name}`" if account.name else ""
        return f"`{server}`: connected{name} since {moment(account.since)}, `/disconnect {server}` ends that."

    async def _link(self, request: CommandRequest, server: str, by: str) -> Reply:
        place = self.returns
        try:
            redirect = await place.address()
            address = await self.links.link(server, request.caller.principal, by, redirect, lasting=place.lasting)
        except AuthorizationError as error:
            log_cause(server, error)
            raise CommandError(UNREACHED.format(server=server)) from None
        except OSError as error:
            log_cause(server, AuthorizationError(f"cannot listen for people who come back, {error.strerror or error}"))
            raise CommandError(UNREACHED.format(server=server)) from None
        text = LINK.format(address=address)
        return Reply(text if place.public else f"{text}\n{HERE}")

    async def _confirm(self, request: CommandRequest, server: str, code: str, *, sure: bool) -> Reply:
        name = await self.links.confirm(server, request.caller.principal, code, sure=sure)
        if name is not None:
            return Reply(IS_IT_YOURS.format(name=name, server=server, code=code))
        return Reply(CONNECTED.format(server=server))

    async def _account(self, request: CommandRequest) -> str:
        """Return the platform's account of the caller, in whose private chat this is typed.

        Raises CommandError: the chat is shared, or no person asks.
        """
        if await request.in_shared_chat():
            raise CommandError(IN_PRIVATE)
        account = principals.reader(replace(request.address, recipient=request.address.chat))
        known = self.gate.document.principal(account)
        if is_program(request.caller.principal) or known is None or known[0] != request.caller.principal:
            raise CommandError(IN_PRIVATE)
        return account

    def _known(self, server: str) -> str:
        if server not in self.links.personal:
            raise CommandError(UNKNOWN.format(server[:30], nearest(server, self.links.personal)))
        return server
