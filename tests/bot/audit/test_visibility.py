"""`/audit`: what admins are told of the audit at an address, and that the rest is as if it were not there."""

from pathlib import Path

import pytest

from bot.access.authorize import Caller, Ingress
from bot.app.app import App
from bot.audit.chain import Broken
from bot.audit.visibility import CHECKED, SCANNED
from bot.commands import table
from bot.commands.admin.audit import NEWEST, NOTHING
from bot.commands.command import Reply
from bot.core.errors import NotFoundError, in_sentences
from bot.ingress.command_runner import FAILED, UNREAD
from bot.sessions.audit import AuditRow
from bot.sessions.budgets import Spender
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import AgentThinking
from bot.sessions.messages import SessionMessage
from bot.sessions.models import NewEvent, Write
from bot.store.schema import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, session_keys
from channels.messages import Address
from policy.labels import PUBLIC, Label, parse
from policy.request import Role
from tests.bot.ingress.test_bot_loop_guard import side
from tests.bot.kit import CONFIDENTIAL, HOME, INTERNAL, RESTRICTED, TOP, Scripted, bang, parts, policy
from tests.bot.rooms import talking, team
from tests.channels.telegram.kit import at
from tests.harness import running
from tests.store.world import command, drop_state, put_state

pytestmark = pytest.mark.anyio


async def asked(app: App, line: str, clearance: Label = TOP, role: Role = Role.ADMIN) -> Reply:
    """Return what a command answers to somebody of a role and clearance at the console."""
    caller = Caller("owner", role, clearance, Ingress.COMMAND)
    return await app.commands.answer(app.commands.request(caller, HOME, app.session_id(HOME)), line)


def ids(reply: Reply) -> list[str]:
    return [line for line in reply.text.splitlines() if not line.startswith("-")]


async def test_the_newest_rows_are_told_the_last_one_last_with_names_to_trace(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        await person.app.store.audit.append(
            tuple(AuditRow("access", "owner", {"what": f"allow {place}"}) for place in range(60))
        )
        told = await asked(person.app, "/audit tail 3")
        assert len(ids(told)) == 3
        traced = [(await asked(person.app, f"/audit trace {name}")).text for name in ids(told)]
        assert [text.splitlines()[1] for text in traced] == ["what: allow 57", "what: allow 58", "what: allow 59"]
        assert len(ids(await asked(person.app, "/audit"))) == 10
        assert len(ids(await asked(person.app, "/audit tail audit 9999"))) == 50
        for wrong in ("/audit tail 0", "/audit tail a b", "/audit burn", "/audit trace", "/audit tail 12345"):
            assert "Write it as `/audit" in (await asked(person.app, wrong)).text


async def test_it_is_for_admins(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        assert table.BUILT_IN.needed("/audit verify") is Role.ADMIN
        assert "Unknown command" in (await asked(person.app, "/audit", role=Role.APPROVER)).text


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
        assert unknown.text == in_sentences(NotFoundError())
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
        AuditRow("refused", "owner", {"budget": "person", "tokens": 4711}),
        AuditRow("refused", "owner", {"budget": "person", "tokens": 4711, "taint": "RESTRICTED"}),
        AuditRow("refused", "router", {"taint": "RESTRICTED"}),
        AuditRow("access", "owner", {"what": "allow", "session": "deleted"}),
        AuditRow("policy", "owner", {"label": "CONFIDENTIAL"}),
        AuditRow("decision", "owner", {"before": "PUBLIC", "destination": "session:ann:hidden:1"}),
        AuditRow("decision", "owner", {"before": "PUBLIC", "destination": "what is no address"}),
        AuditRow("decision", "owner", {"before": "what is no label"}),
        AuditRow("decision", "owner", {}),
        AuditRow("of a kind that nobody knows", "owner", {}),
    ],
)
async def test_no_read_up_a_row_above_the_reader_leaves_no_gap(tmp_path: Path, row: AuditRow) -> None:
    async with running(tmp_path, serve=False) as person:
        plain = AuditRow("access", "owner", {"what": "allow"})
        await person.app.store.audit.append((plain,))
        before = await asked(person.app, "/audit", INTERNAL)
        assert len(ids(before)) == 1
        await person.app.store.audit.append((row,))
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


async def traced(app: App, clearance: Label) -> list[str]:
    """Return in full every row of the chain outside sessions that may be told."""
    names = [name for name in ids(await asked(app, "/audit tail 50", clearance)) if name.startswith(f"{AUDIT}:")]
    return [(await asked(app, f"/audit trace {name}", clearance)).text for name in names]


async def test_no_read_up_what_a_hidden_session_has_no_budget_for(tmp_path: Path) -> None:
    """The row tells how many tokens were asked for, and so how much the session holds."""
    settings = policy(blocks={"limits": {"person_daily_tokens": 50_000}})
    async with running(tmp_path, settings, parts=parts(model=Scripted("hi"))) as person:
        await person.say("hello")
        await person.say("/taint raise RESTRICTED")
        before = await asked(person.app, "/audit tail 50", CONFIDENTIAL)
        await person.app.store.budgets.settle_tokens(
            "x", Spender("owner", "", parse("RESTRICTED")), 49_990, complete=True
        )
        assert "used up" in await person.say("/summarize")
        (refused,) = [row for row in await person.app.store.audit.records(AUDIT) if "budget" in row.body]
        assert (refused.body["session"], refused.body["taint"]) == (person.sid, "RESTRICTED")
        assert any("budget: person" in text for text in await traced(person.app, TOP))
        assert await asked(person.app, "/audit tail 50", CONFIDENTIAL) == before


async def test_no_read_up_a_recap_of_what_is_hidden_since(tmp_path: Path) -> None:
    """Its taint was PUBLIC when the model was asked; that there is a session may not be known any more."""
    async with running(tmp_path, parts=parts(model=Scripted("hi"))) as person:
        await person.say("hello")
        before = await traced(person.app, PUBLIC)
        assert "may not be told" not in await person.say("/summarize")
        assert len(await traced(person.app, PUBLIC)) == len(before) + 2
        await person.say("/taint raise RESTRICTED")
        rows = await person.app.store.audit.records(AUDIT)
        asking = [row.body for row in rows if row.body.get("hook") == "AGENT_INVOCATION"]
        assert [(body["before"], body["session"]) for body in asking] == [("PUBLIC", person.sid)]
        assert not any("AGENT_INVOCATION" in text for text in await traced(person.app, PUBLIC))


async def test_no_read_up_a_row_that_names_a_hidden_session_as_where_something_goes(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), parts=parts(model=Scripted("hi"))) as people:
        app, here, there = people.app, Address("room", "ann"), Address("room", "ann", thread="2")
        hidden = app.session_id(there)
        await people.say("ann", "hello", here)
        await people.say("ann", "hello", there)
        await people.say("ann", "/taint raise CONFIDENTIAL", there)
        await people.say("ann", f"/send {hidden} hello there", here)
        assert any(f"session:ann:{hidden}:1" in text for text in await traced(app, TOP))
        shown = await traced(app, PUBLIC)
        assert shown
        assert not any(hidden in text for text in shown)
        called = [row.body["session"] for row in await app.store.audit.records(AUDIT) if row.body.get("hook") in CALLED]
        assert called == [app.session_id(here)] * 2


CALLED = {"PRE_TOOL_CALL", "POST_TOOL_RESPONSE"}


async def test_no_read_up_rows_above_the_reader_do_not_push_others_out(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        hidden = AuditRow("decision", "x", {"before": "RESTRICTED"})
        await person.app.store.audit.append((AuditRow("access", "owner", {"what": "allow"}),))
        before = await asked(person.app, "/audit", PUBLIC)
        for _ in range(SCANNED // 200 + 1):
            await person.app.store.audit.append((hidden,) * 200)
        assert await asked(person.app, "/audit", PUBLIC) == before
        (name,) = ids(before)
        assert "what: allow" in (await asked(person.app, f"/audit trace {name}", PUBLIC)).text


async def test_who_may_be_told_more_rows_than_are_looked_through_is_told_of_the_newest(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        app = person.app
        await app.store.audit.append((AuditRow("access", "owner", {"what": "first"}),))
        (oldest,) = ids(await asked(app, "/audit"))
        for left in range(SCANNED, 0, -200):
            assert "what: first" in (await asked(app, f"/audit trace {oldest}")).text, left
            await app.store.audit.append((AuditRow("access", "owner", {"what": "allow"}),) * 200)
        assert (await asked(app, f"/audit trace {oldest}")).text == in_sentences(NotFoundError())


async def test_a_chain_whose_end_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        app = person.app
        await app.store.audit.append((AuditRow("access", "owner", {"what": "allow"}),))
        await command(app.store, "HSET", AUDIT_HEAD, "an", "garbage")
        assert (await asked(app, "/audit verify")).text.startswith(f"{AUDIT}: tampered with\n0 of 1 chains intact\n")
        checked = await app.audit.checked(None)
        assert checked.broken[AUDIT].reason == "its head in the store cannot be read"


async def test_a_row_that_cannot_be_read_breaks_its_chain_and_hides_no_other_but_the_next(tmp_path: Path) -> None:
    """The next one's is hidden with it, as what it follows on stands in the row before."""
    async with running(tmp_path, serve=False) as person:
        app = person.app
        await app.store.audit.append(tuple(AuditRow("access", "owner", {"what": f"allow {n}"}) for n in range(6)))
        await command(app.store, "LSET", AUDIT_CHAIN, 3, "garbage")
        assert (await asked(app, "/audit verify")).text.startswith(f"{AUDIT}: tampered with\n0 of 1 chains intact\n")
        shown = [line for text in await traced(app, TOP) for line in text.splitlines() if line.startswith("what")]
        assert shown == [f"what: allow {n}" for n in (0, 1, 2, 5)]
        found = await app.chains.verify(AUDIT)
        assert found == Broken(4, "record 4 cannot be read")
        await command(app.store, "HSET", AUDIT_HEAD, "an", "garbage")
        assert isinstance(await app.chains.verify(AUDIT), Broken)
        await command(app.store, "HSET", AUDIT_HEAD, "an", 6)


async def test_a_changed_row_is_told_of_before_one_that_cannot_be_read(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        app = person.app
        await app.store.audit.append(tuple(AuditRow("access", "owner", {"what": f"allow {n}"}) for n in range(6)))
        row = await command(app.store, "LINDEX", AUDIT_CHAIN, 1)
        assert isinstance(row, bytes)
        await command(app.store, "LSET", AUDIT_CHAIN, 1, row.replace(b"allow", b"elbow"))
        await command(app.store, "LSET", AUDIT_CHAIN, 3, "garbage")
        found = await app.chains.verify(AUDIT)
        assert isinstance(found, Broken)
        assert found.n == 2


async def test_a_session_that_cannot_be_read_is_above_everybody(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say("hello")
        await person.say("/simulate current_time")
        await put_state(person.app.store, person.sid, taint="garbage")
        assert not any("simulate by" in text for text in await traced(person.app, INTERNAL))
        assert any("simulate by" in text for text in await traced(person.app, TOP))
        assert (await asked(person.app, "/audit verify", INTERNAL)).text.startswith("1 of 1 chains intact\n")
        assert (await asked(person.app, "/audit verify")).text.startswith("2 of 2 chains intact\n")
        assert await asked(person.app, f"/audit tail {person.sid}", INTERNAL) == Reply(NOTHING)


async def test_a_command_that_fails_is_answered_and_noted_and_not_told_again(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        store = person.app.store
        await person.say("hello")
        claim = await store.sessions.claim(person.sid, "test", idle=True)
        assert claim is not None
        said = NewEvent("owner", PUBLIC, AgentThinking({"kind": "request", "parts": []}), admitted=True)
        await store.sessions.record(claim, Write("op", claim.state.seq, events=(said,), release=True))
        assert FAILED in await person.say("/summarize", wait=False)
        (failed,) = [row for row in await store.audit.records(AUDIT) if row.kind == "failed"]
        assert (failed.actor, failed.body["session"], failed.body["error"]) == ("router", person.sid, "TypeError")
        assert str(failed.body["where"]).startswith("context.py:")
        await put_state(store, person.sid, taint="garbage")
        assert UNREAD in await person.say("/status", wait=False)


async def test_verify_checks_the_sessions_that_changed_last_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        app = person.app
        for number in range(CHECKED):
            await app.store.sessions.accept(arriving(f"s{number}", PUBLIC))
        told = (await asked(app, "/audit verify", PUBLIC)).text
        assert told.startswith(f"{CHECKED + 1} of {CHECKED + 1} chains intact\n")
        assert NEWEST not in told
        # What is hidden is neither checked nor counted.
        await app.store.sessions.accept(arriving("hidden", RESTRICTED))
        assert (await asked(app, "/audit verify", PUBLIC)).text == told
        await app.store.sessions.accept(arriving("last", PUBLIC))
        more = (await asked(app, "/audit verify", PUBLIC)).text
        assert more.startswith(f"{CHECKED + 1} of {CHECKED + 1} chains intact\n{NEWEST}\n")
        await break_chain(app, "s0")
        assert (await asked(app, "/audit verify", PUBLIC)).text == more
        await break_chain(app, "last")
        assert (await asked(app, "/audit verify", PUBLIC)).text.startswith("last: tampered with\n")


def arriving(sid: str, label: Label) -> NewItem:
    return NewItem(sid, "d1", "owner", label, SessionMessage("hello"), home=str(HOME), principal="owner")


async def break_chain(app: App, sid: str) -> None:
    """Put a row into a chain that nobody wrote, as somebody who writes the store can."""
    await command(app.store, "RPUSH", session_keys(sid).audit, "garbage")


async def cut(app: App, sid: str) -> None:
    """Take the newest record of a session's chain away, as somebody who writes the store can."""
    await app.store._shared.connection.commands(("RPOP", session_keys(sid).audit))  # pyright: ignore[reportPrivateUsage] - harm


async def test_a_record_that_cannot_be_read_keeps_nobody_out(tmp_path: Path) -> None:
    """Telegram tells an update again until it is taken, and nothing after it before that."""
    async with side(tmp_path) as there:
        alice, store = there.stage.alice, there.app.store
        await command(store, "LSET", AUDIT_CHAIN, 0, "garbage")
        alice.says(alice.private, "/audit verify")
        await there.stage.server.until(lambda: any("audit: tampered with" in text for text in alice.private.said), 10)
        alice.says(alice.private, "hello")
        await there.stage.server.until(lambda: any("You said: hello" in text for text in alice.private.said), 10)
        sid = there.app.session_id(at(alice.private))
        await put_state(store, sid, taint="garbage")
        alice.says(alice.private, "/status")
        alice.says(there.group, f"@{there.stage.server.state.username} anybody")
        await there.stage.server.until(lambda: any("You said: anybody" in text for text in there.group.said), 10)
        await there.stage.server.until(lambda: any(UNREAD in text for text in alice.private.said), 10)
        await drop_state(store, sid, "taint")
