"""`/audit`: what admins are told of the audit at an address, and that the rest is as if it were not there."""

from pathlib import Path

import pytest

from bot.app import App
from bot.authorize import Caller, Ingress
from bot.commands import table
from bot.commands.audit import NOTHING
from bot.commands.base import Reply
from bot.errors import NotFoundError
from bot.sessions.records import AuditRow
from bot.store.keys import session_keys
from policy.labels import PUBLIC, Label
from policy.request import Role
from tests.bot.kit import CONFIDENTIAL, HOME, INTERNAL, TOP, bang, policy
from tests.harness import running

pytestmark = pytest.mark.anyio


async def asked(app: App, line: str, clearance: Label = TOP, role: Role = Role.ADMIN) -> Reply:
    """Return what a command answers to somebody of a role and clearance at the console."""
    caller = Caller("owner", role, clearance, Ingress.COMMAND)
    return await table.answer(app.command_context(caller, HOME, app.session_id(HOME)), line)


def ids(reply: Reply) -> list[str]:
    return [line for line in reply.text.splitlines() if not line.startswith("-")]


async def test_the_newest_rows_are_told_the_last_one_last_with_names_to_trace(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        await person.app.store.append(
            tuple(AuditRow("access", "owner", {"what": f"allow {place}"}) for place in range(60))
        )
        told = await asked(person.app, "/audit tail 3")
        assert len(ids(told)) == 3
        traced = [(await asked(person.app, f"/audit trace {name}")).text for name in ids(told)]
        assert [text.splitlines()[1] for text in traced] == ["what: allow 57", "what: allow 58", "what: allow 59"]
        assert len(ids(await asked(person.app, "/audit"))) == 10
        assert len(ids(await asked(person.app, "/audit tail audit 9999"))) == 50
        for wrong in ("/audit tail 0", "/audit tail a b", "/audit burn", "/audit trace", "/audit tail 12345"):
            assert "write it as `/audit" in (await asked(person.app, wrong)).text


async def test_it_is_for_admins(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        assert table.needed("/audit verify") is Role.ADMIN
        assert "unknown command" in (await asked(person.app, "/audit", role=Role.APPROVER)).text


async def test_no_read_up_a_chain_above_the_reader_is_as_one_that_does_not_exist(tmp_path: Path) -> None:
    """Also what is held counts, which a session's own taint does not tell of, and what came before a reset."""
    settings = policy(tools={"read_file": {"hold": True}})
    async with running(tmp_path, settings) as person:
        await person.say(bang("read_file", path="confidential/pipeline.md"))
        assert (await person.state()).visibility == PUBLIC
        chain = person.sid
        absent = await asked(person.app, "/audit tail nothing", INTERNAL)
        assert absent == Reply(NOTHING)
        assert await asked(person.app, f"/audit tail {chain}", INTERNAL) == absent
        told = await asked(person.app, f"/audit tail {chain}")
        assert "PRE_TOOL_CALL, ALLOW" in told.text
        assert CONFIDENTIAL.flows_to(told.label)
        name = ids(told)[0]
        assert "before: PUBLIC" in (await asked(person.app, f"/audit trace {name}")).text
        unknown = await asked(person.app, "/audit trace nothing:4711", INTERNAL)
        assert unknown.text == str(NotFoundError())
        assert await asked(person.app, f"/audit trace {name}", INTERNAL) == unknown
        await person.say("/reset confirm")
        assert await asked(person.app, f"/audit tail {chain}", INTERNAL) == absent


@pytest.mark.parametrize(
    "row",
    [
        AuditRow("decision", "owner", {"before": "CONFIDENTIAL", "after": "CONFIDENTIAL"}),
        AuditRow("decision", "owner", {"before": "PUBLIC", "after": "CONFIDENTIAL~"}),
        AuditRow("offer", "owner", {"label": "RESTRICTED"}),
        AuditRow("simulate", "owner", {"taint": "CONFIDENTIAL"}),
        AuditRow("failed", "worker", {"session": "deleted"}),
        AuditRow("decision", "owner", {"before": "what is no label"}),
        AuditRow("decision", "owner", {}),
        AuditRow("of a kind that nobody knows", "owner", {}),
    ],
)
async def test_no_read_up_a_row_above_the_reader_leaves_no_gap(tmp_path: Path, row: AuditRow) -> None:
    async with running(tmp_path, serve=False) as person:
        plain = AuditRow("access", "owner", {"what": "allow"})
        await person.app.store.append((plain,))
        before = await asked(person.app, "/audit", INTERNAL)
        assert len(ids(before)) == 1
        await person.app.store.append((row,))
        assert await asked(person.app, "/audit", INTERNAL) == before
        assert len(ids(await asked(person.app, "/audit"))) == 2


async def test_a_row_that_names_a_session_is_told_where_the_session_may_be(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say("hello")
        await person.say("/simulate current_time")
        assert "simulate, owner" in (await asked(person.app, "/audit", PUBLIC)).text
        # Nothing is told in the place of what a row does not name, such as the policy before the first.
        assert "None" not in (await asked(person.app, "/audit")).text
        await person.say("/taint raise CONFIDENTIAL")
        assert "simulate" not in (await asked(person.app, "/audit", PUBLIC)).text


async def test_verify_counts_and_names_what_may_be_known_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say("hello")
        whole = (await asked(person.app, "/audit verify")).text
        assert whole.startswith("2 of 2 chains intact\n")
        await person.say("/taint raise CONFIDENTIAL")
        assert (await asked(person.app, "/audit verify", INTERNAL)).text.startswith("1 of 1 chains intact\n")
        await cut(person.app, person.sid)
        told = await asked(person.app, "/audit verify")
        assert told.text.startswith(f"{person.sid}: tampered with\n1 of 2 chains intact\n")
        assert CONFIDENTIAL.flows_to(told.label)
        hidden = await asked(person.app, "/audit verify", INTERNAL)
        assert person.sid not in hidden.text
        assert hidden.label == PUBLIC


async def cut(app: App, sid: str) -> None:
    """Take the newest record of a session's chain away, as somebody who writes the store can."""
    await app.store._link.commands(("RPOP", session_keys(sid).audit))  # pyright: ignore[reportPrivateUsage] - harm
