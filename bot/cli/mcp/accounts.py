"""`lockgate mcp login` and `logout`: the one account for all at a server, connected by the operator in a browser."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from bot.cli.identity import as_owner
from bot.cli.output import print_lines
from bot.config.accounts.oauth import McpAccountsSettings
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.mcp.accounts.connecting import AccountError, ReturnAnswer
from bot.mcp.accounts.records import SHARED
from bot.mcp.accounts.returns import ReturnPlace
from bot.mcp.accounts.store import LINK_SECONDS

if TYPE_CHECKING:
    from bot.app.app import App

OPEN: Final = "open this address in a browser on this machine, within ten minutes:"
LOGGED_IN: Final = "logged in at `{}`"
LOGGED_OUT: Final = "logged out at `{}`"


async def login(config: Config, server: str, port: int) -> None:
    """Print an address, wait until the operator consented there, and keep the account.

    Raises OperatorError: the server has no account for all, its issuer cannot be used, or nobody consented.
    """
    _check(config, server)
    async with as_owner(config) as (app, _):
        await connect(app, server, port, lambda address: print_lines([OPEN, address]))
    print_lines([LOGGED_IN.format(server)])


async def logout(config: Config, server: str) -> None:
    """Delete the account for all at a server, and give its tokens back. Raises OperatorError: there is none."""
    _check(config, server)
    async with as_owner(config) as (app, _):
        try:
            await app.accounts.links.disconnect(server, SHARED)
        except AccountError:
            raise OperatorError(
                f"nobody has logged in at `{server}`", next_step=f"`lockgate mcp login {server}` does that"
            ) from None
    print_lines([LOGGED_OUT.format(server)])


async def connect(app: "App", server: str, port: int, tell: Callable[[str], None]) -> None:
    """Connect the account for all; `tell` gets the address at which to consent. People come back to a port here.

    Raises OperatorError: as `login`.
    """
    came = asyncio.get_running_loop().create_future()

    async def take(query: Mapping[str, str]) -> ReturnAnswer:
        answer = await app.accounts.links.returned(query)
        if not came.done() and answer.settles:
            came.set_result(answer)
        return answer

    place = ReturnPlace(McpAccountsSettings(port=port), take)
    try:
        try:
            redirect = await place.address()
        except OSError as error:
            raise OperatorError(
                f"cannot listen at port {port}, {error.strerror or error}", next_step="give another one by `--port`"
            ) from None
        tell(await app.accounts.links.link(server, SHARED, "", redirect, lasting=place.lasting))
        try:
            async with asyncio.timeout(LINK_SECONDS):
                answer: ReturnAnswer = await came
        except TimeoutError:
            raise OperatorError(
                "nobody consented in time", next_step=f"run `lockgate mcp login {server}` again"
            ) from None
    finally:
        await place.close()
    if not answer.done:
        raise OperatorError(answer.text[0].lower() + answer.text[1:].partition(".")[0], next_step="see the log")


def _check(config: Config, server: str) -> None:
    settings = config.mcp_servers.get(server)
    if settings is None or settings.oauth is None or settings.oauth.personal:
        raise OperatorError(
            f"`{server}` is no server with one account for all",
            next_step=f"write `oauth: {{accounts: shared}}` under `mcp_servers.{server}`",
        )
