"""The code of the page, the stored values, the client of a link, and the page itself, under hostile use."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import ClientSession

from bot.config.mcp import McpServerSettings
from bot.core.clock import SystemClock
from bot.mcp.accounts.connecting import NOT_KEPT, NOT_OURS, TRIES, AccountError, AccountLinks, ReturnAnswer
from bot.mcp.accounts.page import serving
from bot.mcp.accounts.records import Link
from bot.mcp.accounts.store import AccountStore
from bot.mcp.accounts.tokens import AccountTokens
from tests.bot.mcp.accounts.board import WHOAMI, Board, board, entry
from tests.sim.mcp_oauth import oauth_server

pytestmark = pytest.mark.anyio

BACK = "http://127.0.0.1:9/accounts/back"


class LaterClock(SystemClock):
    """A clock that is ten minutes ahead."""

    def wall_ms(self) -> int:
        return super().wall_ms() + 600_000


def links(people: Board, clock: SystemClock, **oauth: str) -> AccountLinks:
    """Return what another process has for the same accounts, with its own clock and configuration."""
    app = people.app
    block = entry(people.server, **oauth)["mcp_servers"]
    assert isinstance(block, dict)
    settings = {"notes": McpServerSettings.model_validate(block["notes"])}
    store, audit = AccountStore(app.vault), app.store.audit
    tokens = AccountTokens(settings, store, audit, clock=clock, ids=app.ids, secrets=lambda _: "")
    return AccountLinks(settings, tokens, store, audit, clock=clock, ids=app.ids)


async def linked(people: Board, by: AccountLinks) -> Link:
    """Make a link of Ann's, and return its stored facts."""
    address = await by.link("notes", "ann", "room:ann", BACK, lasting=True)
    found = await AccountStore(people.app.vault).take(parse_qs(urlsplit(address).query)["state"][0])
    assert found is not None
    return found


async def test_codes_that_are_tried_at_once_cost_one_try_each(tmp_path: Path) -> None:
    async with oauth_server(named=True) as server, board(tmp_path, server) as people:
        await people.code("ann", "mel")
        elsewhere = links(people, SystemClock())
        trying = (elsewhere.confirm("notes", "ann", f"aaaaaaa{one}", sure=False) for one in range(TRIES + 3))
        assert {type(one) for one in await asyncio.gather(*trying, return_exceptions=True)} == {AccountError}
        assert server.revoked == ["mel"]


async def test_a_code_counts_no_longer_than_its_page_says(tmp_path: Path) -> None:
    async with oauth_server(named=True) as server, board(tmp_path, server) as people:
        code = await people.code("ann")
        with pytest.raises(AccountError):
            await links(people, SystemClock()).confirm("notes", "ann", "aaaaaaaa", sure=True)
        # The right code costs no try.
        for _ in range(TRIES):
            assert await links(people, SystemClock()).confirm("notes", "ann", code, sure=False) == "ann@notes"
        with pytest.raises(AccountError):
            await links(people, LaterClock()).confirm("notes", "ann", code, sure=True)
        assert server.revoked == ["ann"]


async def test_a_stored_value_that_cannot_be_read_counts_as_none_and_is_not_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with oauth_server() as server, board(tmp_path, server) as people:
        await people.connect("ann")
        vault = people.app.vault()
        names = await vault.names("mcp/account/")
        assert len(names) == 1
        await vault.put(names[0], b'{"access": "hidden-token", "refresh": "hidden-token"}')
        told = await people.told("ann", WHOAMI)
        assert "hidden-token" not in f"{told} {caplog.text}"
        assert "not connected" in await people.told("ann", "/connect")
        await people.connect("ann")
        assert "notes of ann" in await people.told("ann", WHOAMI)


async def test_a_link_uses_the_client_and_the_addresses_of_now(tmp_path: Path) -> None:
    async with oauth_server() as server, board(tmp_path, server) as people:
        before = await linked(people, links(people, SystemClock()))
        server.token_at = "{base}/elsewhere"  # noqa: S105 - an address
        after = await linked(people, links(people, SystemClock()))
        assert before.registration.client_id == after.registration.client_id == "client-1"
        assert after.registration.token == f"{server.base}/elsewhere"
        for name in ("first", "second"):
            given = await linked(people, links(people, SystemClock(), client_id=name))
            assert given.registration.client_id == name
        assert len(server.clients) == 1


async def test_all_requests_but_a_link_that_counts_get_one_page(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def take(query: Mapping[str, str]) -> ReturnAnswer:
        raise RuntimeError(query["code"])

    async with serving("/back", "127.0.0.1", 0, take) as port, ClientSession() as browser:
        for method, path in (("GET", "/"), ("POST", "/back?state=a"), ("HEAD", "/back?state=a"), ("GET", "/<b>x")):
            async with browser.request(method, f"http://127.0.0.1:{port}{path}") as answer:
                assert answer.status == 403
                assert (await answer.text()).strip() == ("" if method == "HEAD" else NOT_OURS)
                assert (answer.headers["Server"], answer.headers["X-Frame-Options"]) == ("lockgate", "DENY")
                assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
                assert answer.headers["Cache-Control"] == "no-store"
        async with browser.get(f"http://127.0.0.1:{port}/back?code=hidden-code") as answer:
            assert (answer.status, (await answer.text()).strip()) == (503, NOT_KEPT)
    assert "hidden-code" not in "".join(record.getMessage() + str(record.exc_info) for record in caplog.records)
