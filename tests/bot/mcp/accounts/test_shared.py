"""One account for all: the operator logs in once, every process uses it, and one of them renews its token."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.app.keys import Secrets
from bot.app.stores import opened_store
from bot.cli.mcp.accounts import connect
from bot.cli.mcp_servers import NO_LOGIN, look
from bot.core.errors import OperatorError
from bot.mcp.accounts.records import SHARED
from bot.mcp.accounts.store import AccountStore
from bot.mcp.accounts.tokens import AccountTokens
from bot.mcp.accounts.use import NO_SHARED
from bot.store.redis_store import RedisStore
from channels.port import ChannelVault
from tests.bot.commands.kit import context
from tests.bot.kit import eventually, policy
from tests.bot.mcp.accounts.board import LABELLED, WHOAMI, entry
from tests.harness import Person, running
from tests.sim.mcp_oauth import OAuthServer, oauth_server

pytestmark = pytest.mark.anyio


async def log_in(owner: Person, server: OAuthServer, user: str) -> str:
    """Log in as the operator, with a browser that consents as `user`; return the page where it ends."""
    link = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(connect(owner.app, "notes", 0, link.set_result))
        return await server.browse(await link, user)


@asynccontextmanager
async def other_process(owner: Person) -> AsyncGenerator[tuple[RedisStore, ChannelVault]]:
    """Open the store and its vault as another process of the installation does."""
    app = owner.app
    secrets = await asyncio.to_thread(Secrets.load, app.config, {})
    store = await opened_store(app.config, secrets, app.clock)
    try:
        yield store, store.vault(secrets.vault)
    finally:
        await store.close()


async def begun(server: OAuthServer, exchanges: int) -> bool:
    return len(server.exchanged) == exchanges


async def test_an_operator_logs_in_once_for_all(tmp_path: Path) -> None:
    async with oauth_server() as server:
        config = policy(mcp_servers=LABELLED, blocks=entry(server, "shared"))
        async with running(tmp_path, config) as owner:
            assert NO_SHARED.format("notes") in await owner.say(WHOAMI)
            with pytest.RaisesGroup(pytest.RaisesExc(OperatorError, match="nobody agreed")):
                await log_in(owner, server, "nobody")
            assert "is connected" in await log_in(owner, server, "firm")
            assert "notes of firm" in await owner.say(WHOAMI)
            rows = [row.body async for row in owner.app.chains.records(owner.sid)]
            assert [row["account_of"] for row in rows if "account_of" in row][-1] == "(shared)"
            # Another login replaces it, and gives the old tokens back.
            await log_in(owner, server, "other")
            assert server.revoked == ["firm"]
            assert "notes of other" in await owner.say(WHOAMI)
            assert server.mixed == []
            await owner.app.accounts.links.disconnect("notes", SHARED)
            assert NO_SHARED.format("notes") in await owner.say(WHOAMI)


async def test_a_token_that_ended_is_renewed_by_one_of_two_processes(tmp_path: Path) -> None:
    async with oauth_server(slow=1, seconds=20) as server:
        config = policy(mcp_servers=LABELLED, blocks=entry(server, "shared"))
        async with running(tmp_path, config, serve=False) as owner:
            app, caller = owner.app, context(owner).caller
            assert [seen.problem for seen in await look(app, caller, {})] == [NO_LOGIN]
            await log_in(owner, server, "firm")
            server.seconds = 3600
            async with other_process(owner) as (other, vault):
                elsewhere = AccountTokens(
                    app.config.mcp_servers,
                    AccountStore(lambda: vault),
                    other.audit,
                    clock=app.clock,
                    ids=app.ids,
                    secrets=lambda _: "",
                )
                async with asyncio.TaskGroup() as tasks:
                    asking = [
                        tasks.create_task(one.current("notes", SHARED))
                        for one in (app.accounts.tokens, elsewhere)
                        for _ in range(3)
                    ]
                found = {one.result() for one in asking}
                assert len(found) == 1
                assert server.exchanged == ["authorization_code", "refresh_token"]
                (account,) = found
                assert account is not None
                # One that is stopped in the middle loses no refresh token.
                async with asyncio.TaskGroup() as tasks:
                    stopped = tasks.create_task(elsewhere.current("notes", SHARED, account.access))
                    await eventually(lambda: begun(server, 3))
                    stopped.cancel()
                again = await app.accounts.tokens.current("notes", SHARED, account.access)
                assert len(server.exchanged) == 3
                assert again is not None
                assert again.access != account.access
                assert server.reused == 0
                # The doctor looks with the same account.
                assert [seen.problem for seen in await look(app, caller, {})] == [""]
