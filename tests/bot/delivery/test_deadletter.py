"""Dead letters: what admins find of what was not said, and what they may do about it."""

from pathlib import Path

import pytest

from bot.access.authorize import Caller, Ingress
from bot.app.app import App
from bot.commands import table
from bot.commands.command import Reply
from bot.core.errors import NotFoundError, in_sentences
from bot.sessions.deliveries import DeliveryState
from channels.messages import Address
from channels.port import ChannelError
from policy.labels import PUBLIC, Label
from policy.request import Role
from tests.bot.delivery.test_outbox import Wire, commit, opened, states
from tests.bot.kit import CONFIDENTIAL, HOME, TOP
from tests.store.world import pass_time

pytestmark = pytest.mark.anyio


async def dead(app: App, state: DeliveryState = DeliveryState.FAILED, label: Label = PUBLIC) -> str:
    """Leave something unsaid; return its session."""
    sid = await commit(app, "the plan", label)
    (entry,) = await app.store.outbox.take(sid, "me", ("console",))
    await app.store.outbox.settle(entry, "me", state)
    return sid


async def asked(app: App, line: str, *, role: Role = Role.ADMIN, clearance: Label = TOP) -> Reply:
    """Return what a command answers to somebody of a role and clearance."""
    caller = Caller("owner", role, clearance, Ingress.COMMAND)
    return await app.commands.answer(app.commands.request(caller, HOME, app.session_id(HOME)), line)


async def only(app: App) -> str:
    """Return the id of the one dead letter there is."""
    return (await asked(app, "/deadletter list")).text.split()[0]


@pytest.mark.parametrize("state", [DeliveryState.FAILED, DeliveryState.EXPIRED, DeliveryState.AMBIGUOUS])
async def test_what_was_not_said_is_listed_without_its_text(tmp_path: Path, state: DeliveryState) -> None:
    async with opened(tmp_path, Wire()) as app:
        assert (await asked(app, "/deadletter")).text == "Nothing was left unsaid."
        await dead(app, state, CONFIDENTIAL)
        told = await asked(app, "/deadletter list")
        assert f" {state.value} " in told.text
        assert str(HOME) in told.text
        assert "the plan" not in told.text
        assert CONFIDENTIAL.flows_to(told.label)


async def test_no_read_up_what_is_above_the_reader_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    async with opened(tmp_path, Wire()) as app:
        await dead(app, label=CONFIDENTIAL)
        letter = await only(app)
        assert (await asked(app, "/deadletter", clearance=PUBLIC)).text == "Nothing was left unsaid."
        for what in ("retry", "discard"):
            unknown = await asked(app, f"/deadletter {what} letter-nothing", clearance=PUBLIC)
            assert await asked(app, f"/deadletter {what} {letter}", clearance=PUBLIC) == unknown
            assert unknown.text == in_sentences(NotFoundError())
        assert await states(app) == [DeliveryState.FAILED]


async def test_one_that_is_tried_again_passes_the_gate_again(tmp_path: Path) -> None:
    wire = Wire()
    async with opened(tmp_path, wire) as app:
        sid = await dead(app, label=CONFIDENTIAL)
        letter = await only(app)
        told = await asked(app, f"/deadletter retry {letter}")
        assert told.text == f"Message {letter} is tried again."
        row = (await app.store.audit.records(sid))[-1]
        assert (row.kind, row.actor, row.body["what"]) == ("deadletter", "owner", "retry")
        wire.readers = [frozenset({"console:owner", "console:mallory"})]
        await app.outbox.collect(sid)
        assert wire.sent == []
        assert await states(app) == [DeliveryState.WITHHELD]


async def test_one_that_is_tried_again_is_said(tmp_path: Path) -> None:
    wire = Wire()
    async with opened(tmp_path, wire) as app:
        sid = await dead(app)
        await asked(app, f"/deadletter retry {await only(app)}")
        await app.outbox.collect(sid)
        assert [said.text for said in wire.sent] == ["the plan"]
        assert (await asked(app, "/deadletter")).text == "Nothing was left unsaid."


@pytest.mark.parametrize("marks", [True, False])
async def test_one_in_doubt_that_is_tried_again_is_marked_until_it_was_said(tmp_path: Path, *, marks: bool) -> None:
    wire = Wire(marks_repeats=marks)
    async with opened(tmp_path, wire) as app:
        sid = await dead(app, DeliveryState.AMBIGUOUS)
        await asked(app, f"/deadletter retry {await only(app)}")
        wire.fails = ChannelError("no")
        await app.outbox.collect(sid)
        assert await states(app) == [DeliveryState.PENDING]
        wire.fails = None
        await pass_time(app.store, sid, (await app.store.outbox.deliveries(sid))[0].key)
        await app.outbox.collect(sid)
        assert [(said.text, said.repeated) for said in wire.sent] == [("the plan", True)]


async def test_one_that_failed_for_certain_is_said_without_a_mark(tmp_path: Path) -> None:
    wire = Wire()
    async with opened(tmp_path, wire) as app:
        sid = await dead(app)
        await asked(app, f"/deadletter retry {await only(app)}")
        await app.outbox.collect(sid)
        assert [said.repeated for said in wire.sent] == [False]


async def test_one_that_is_let_go_is_never_said(tmp_path: Path) -> None:
    wire = Wire()
    async with opened(tmp_path, wire) as app:
        sid = await dead(app)
        letter = await only(app)
        assert (await asked(app, f"/deadletter discard {letter.upper()}")).text == f"Message {letter} is discarded."
        await app.outbox.collect(sid)
        assert await states(app) == [DeliveryState.CANCELLED]
        assert wire.sent == []
        assert (await app.store.audit.records(sid))[-1].body["what"] == "discard"


async def test_it_is_for_admins(tmp_path: Path) -> None:
    async with opened(tmp_path, Wire()) as app:
        assert table.BUILT_IN.needed("/deadletter list") is Role.ADMIN
        assert "Unknown command" in (await asked(app, "/deadletter", role=Role.MEMBER)).text
        assert "Write it as" in (await asked(app, "/deadletter burn")).text


async def test_what_sessions_did_not_take_from_one_another_is_not_told(tmp_path: Path) -> None:
    async with opened(tmp_path, Wire()) as app:
        sid = await commit(app, "the plan", address=Address("session", "s2", "owner", "1"))
        (entry,) = await app.store.outbox.take(sid, "me", ("session",))
        await app.store.outbox.settle(entry, "me", DeliveryState.FAILED)
        assert (await asked(app, "/deadletter")).text == "Nothing was left unsaid."
