"""Each person uses their own account, connected by a link of theirs, and nobody's is used for another."""

import logging
from pathlib import Path
from typing import Final

import pytest

from bot.access.decision_context import Call
from bot.commands.accounts.connect import IN_PRIVATE, IS_IT_YOURS
from bot.config.mcp import McpServerSettings
from bot.mcp.accounts.connecting import NOT_AGREED, NOT_CONFIRMED, NOT_OURS, TRIES, WRONG_CODE
from bot.mcp.accounts.use import CONNECT_FIRST, CONNECT_YOURS, NOBODYS, TOLD_ALONE, counts
from bot.mcp.tool import Ask, McpResult, McpTool
from channels.messages import Address
from policy.decision import Verdict
from policy.document.model import Document, load
from policy.document.programs import Program, with_programs
from policy.request import Role
from tests.bot.kit import CONFIDENTIAL, gate, standing
from tests.bot.mcp.accounts.board import LABELLED, WHOAMI, board, entry, private
from tests.bot.rooms import CHANNELS, CHATS, PEOPLE, TEAM
from tests.people import principal
from tests.sim.mcp_oauth import OAuthServer, oauth_server

pytestmark = pytest.mark.anyio

CALL: Final = Call("c1", "notes__whoami", {})


async def test_each_asker_in_a_shared_chat_uses_their_own_account(tmp_path: Path) -> None:
    async with oauth_server() as server, board(tmp_path, server, "ann", "mel") as people:
        await people.connect("ann")
        assert "notes of ann" in await people.asked("ann")
        # Words of Ann are there, so Mel is asked. They have no account, and alone learn how to connect one.
        await people.asked("mel")
        await people.approve("mel")
        assert people.rooms.alone("mel")[-1] == CONNECT_FIRST.format("notes")
        assert TOLD_ALONE in people.rooms.heard(TEAM)[-1]
        assert server.called == ["ann"]
        await people.connect("mel")
        await people.asked("mel")
        await people.approve("mel")
        assert "notes of mel" in people.rooms.heard(TEAM)[-1]
        assert (server.called, server.mixed) == (["ann", "mel"], [])
        assert len(server.sessions) == 2
        rows = [row async for row in people.app.chains.records(people.app.session_id(TEAM))]
        used = [(row.actor, row.body["account_of"]) for row in rows if "account_of" in row.body]
        assert set(used) == {("ann", "ann"), ("mel", "mel")}


async def test_a_link_that_another_person_finished_connects_nothing(tmp_path: Path) -> None:
    """Neither is a tricked person's account taken, nor is a stranger's put upon somebody."""
    async with oauth_server(named=True) as server, board(tmp_path, server) as people:
        link = await people.link("ann")
        back = await server.consent(link, "mel")
        assert "/connect notes " in await server.visit(back)
        # The state counts once.
        assert (await server.visit(back)).strip() == NOT_OURS
        assert "not connected" in await people.told("ann", "/connect")
        for _ in range(TRIES):
            assert WRONG_CODE in (await people.told("ann", "/connect notes aaaaaaaa confirm")).lower()
        # Then it is given back, and its own code is of no use.
        assert server.revoked == ["mel"]
        code = await people.code("ann", "eve")
        # Whose account it is, is shown before it counts.
        told = IS_IT_YOURS.format(name="eve@notes", server="notes", code=code)
        assert await people.told("ann", f"/connect notes {code}") == told
        assert WRONG_CODE in (await people.told("mel", f"/connect notes {code} confirm")).lower()
        assert "not connected" in await people.told("ann", "/connect")
        await people.say("ann", f"/connect notes {code} confirm")
        assert people.rooms.alone("ann")[-1] == IN_PRIVATE


@pytest.mark.parametrize(
    "comes_as,user,page",
    [("https://other.example", "ann", NOT_CONFIRMED), (None, "ann", NOT_CONFIRMED), ("", "nobody", NOT_AGREED)],
    ids=["another issuer", "no issuer", "refused"],
)
async def test_who_comes_back_in_another_way_connects_nothing(
    tmp_path: Path, comes_as: str | None, user: str, page: str
) -> None:
    async with oauth_server(comes_as=comes_as) as server, board(tmp_path, server) as people:
        assert (await server.browse(await people.link("ann"), user)).strip() == page
        assert server.exchanged == []


async def test_who_is_disconnected_or_blocked_has_no_account_at_once(tmp_path: Path) -> None:
    mel = principal("room:mel", "room:melissa", role="member", clearance="INTERNAL")
    known = {**PEOPLE, "mel": mel}
    async with oauth_server(named=True) as server, board(tmp_path, server, principals=known) as people:
        await people.connect("mel")
        assert "notes of mel" in await people.told("mel", WHOAMI)
        await people.say("ann", "/block room:mel", private("ann"))
        held = await people.app.accounts.tokens.held("notes", "mel")
        assert held is not None
        assert not counts(held, people.app.gate.document)
        # Another account of Mel's may still ask, but the one that connected it is shut out.
        assert CONNECT_YOURS.format("notes") in await people.told("melissa", WHOAMI)
        assert "mel@notes" not in await people.told("melissa", "/connect")
        await people.say("ann", "/allow room:mel", private("ann"))
        assert counts(held, people.app.gate.document)
        assert "is disconnected" in await people.told("mel", "/disconnect notes")
        assert server.revoked == ["mel"]
        assert CONNECT_YOURS.format("notes") in await people.told("mel", WHOAMI)
        assert server.called == ["mel"]


async def test_a_withdrawn_grant_is_told_and_asked_for_again(tmp_path: Path) -> None:
    async with oauth_server() as server, board(tmp_path, server) as people:
        await people.connect("ann")
        server.expire()
        assert "notes of ann" in await people.told("ann", WHOAMI)
        assert server.exchanged == ["authorization_code", "refresh_token"]
        server.withdraw("ann")
        assert CONNECT_YOURS.format("notes") in await people.told("ann", WHOAMI)
        rows = [row.body async for row in people.app.chains.records("audit") if row.kind == "mcp_account"]
        assert [row["what"] for row in rows] == ["link", "connected", "lost"]
        await people.connect("ann")
        assert "notes of ann" in await people.told("ann", WHOAMI)
        assert (server.reused, server.mixed) == (0, [])


async def test_no_token_is_said_logged_or_audited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with oauth_server(echoes=True) as server, board(tmp_path, server) as people:
        await people.connect("ann")
        assert "[secret: account]" in await people.told("ann", WHOAMI)
        server.expire()
        await people.told("ann", WHOAMI)
        await people.told("ann", "/connect")
        await people.say("owner", "/config mcp_servers", Address("console", "owner"))
        sids = ("audit", people.app.session_id(private("ann")))
        rows = [[row async for row in people.app.chains.records(sid)] for sid in sids]
        events = await people.app.store.sessions.events(sids[1], limit=1000)
        seen = f"{rows} {events} {people.rooms.sent} {[record.getMessage() for record in caplog.records]}"
        assert [token for token in server.given if token in seen] == []
        names = await people.app.vault().names("mcp/")
        assert names
        assert [token for token in server.given if token in str(names)] == []


@pytest.mark.parametrize(
    "asker,principal,home",
    [
        ("program:crane", "program:crane", Address("api", "crane")),
        ("ann", "mel", Address("room", "mel")),
        ("ann", "chat:room::team:", Address("session", "s2")),
        ("ann", "chat:room::team:", Address("run", "r1")),
    ],
    ids=["program", "another's session", "child of a chat", "run of a chat"],
)
def test_where_no_person_asks_for_themselves_no_account_is_used(asker: str, principal: str, home: Address) -> None:
    known = with_programs(labelled(), [Program("crane", Role.MEMBER, CONFIDENTIAL)])
    before = standing(asker=asker, principal=principal, home=home, role=Role.MEMBER)
    decision = gate([tool()], known).calls.prepare(before, CALL).decision
    assert decision.verdict is Verdict.BLOCK
    assert NOBODYS in [outcome.message for outcome in decision.outcomes]


@pytest.mark.parametrize(
    "principal,home",
    [("ann", Address("room", "ann")), ("ann", Address("run", "r1")), ("chat:room::team:", TEAM)],
    ids=["private chat", "own run", "shared chat"],
)
def test_elsewhere_the_askers_own_is_used(principal: str, home: Address) -> None:
    before = standing(asker="ann", principal=principal, home=home, role=Role.MEMBER)
    made = gate([tool()], labelled()).calls.prepare(before, CALL)
    assert (made.decision.verdict, made.account_of) == (Verdict.ALLOW, "ann")


def tool() -> McpTool:
    """Return a tool of a server where each person has an account."""
    block = entry(OAuthServer(port=1))["mcp_servers"]
    assert isinstance(block, dict)
    return McpTool("notes", "whoami", McpServerSettings.model_validate(block["notes"]), nobody)


async def nobody(_ask: Ask) -> McpResult:
    raise AssertionError


def labelled() -> Document:
    sections = {"principals": PEOPLE, "channels": {**CHANNELS, "api": {"classification": "INTERNAL"}}}
    return load({**sections, "chats": CHATS, "mcp_servers": LABELLED}, tools=["notes__whoami"], servers=["notes"])
