"""`/release` from what is shown to what is sent, and the look again at the moment of sending."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.commands.release import CHANGED
from bot.core.ids import Ids
from bot.gate.gate import Gate
from bot.history import event_log
from bot.sessions.consents import releases
from bot.sessions.consents.releases import Release
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.log.event_types import ReleaseConfirmed, ReleaseRequested, UserMessage
from bot.sessions.log.events import EventType
from bot.sessions.log.serialization import event_from, release_json
from bot.sessions.models import Write
from policy.decision import Verdict
from policy.labels import PUBLIC
from policy.request import Destination
from tests.bot.kit import (
    CONFIDENTIAL,
    GUEST,
    HOME,
    INTERNAL,
    NOW,
    Scripted,
    bang,
    blocked_by,
    document,
    gate,
    note,
    parts,
    policy,
    standing,
)
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

OWNER = principal("console:owner", may_release=True)
HELD = {"principals": {"owner": OWNER}}
TEXT = "the deal is on"
HIDE = {"id": "hide", "hook": "PRE_OUTPUT", "pattern": "deal", "action": "REDACT"}
RECORD = Release(
    "c0de",
    "owner",
    str(HOME),
    3,
    releases.digest(TEXT),
    CONFIDENTIAL,
    str(GUEST),
    PUBLIC,
    "guest",
    "there",
    NOW + 1,
)
SENT = Delivery(
    "s1", "release-c0de", str(GUEST), TEXT, CONFIDENTIAL, "message", "", DeliveryState.SENDING, NOW, 1, 1, (), release=9
)
THERE = Destination(str(GUEST), "console", PUBLIC)


def code(shown: str) -> str:
    return shown.split("/release confirm ")[1].split("`", maxsplit=1)[0]


def chats(clearance: str) -> dict[str, dict[str, str]]:
    """Return the known chats, the guest's cleared for this."""
    clearances = {"owner": "top", "guest": clearance}
    return {name: {"channel": "console", "chat": name, "clearance": known} for name, known in clearances.items()}


async def confidential(owner: Person) -> None:
    """Let the session know something confidential, and say something."""
    await owner.say(bang("read_file", path="confidential/pipeline.md"))
    await owner.say(TEXT)


# --- at the gate -----------------------------------------------------------------------------------


def keeper(**sections: object) -> Gate:
    return gate([], document(**{**HELD, **sections}))


def test_a_record_lets_exactly_its_bytes_through() -> None:
    assert keeper().output.recheck(SENT, THERE, NOW, RECORD).decision.verdict is Verdict.ALLOW
    assert blocked_by(keeper().output.recheck(SENT, THERE, NOW).decision) == {"no_write_down"}


@pytest.mark.parametrize(
    "delivery, there, record",
    [
        pytest.param(replace(SENT, text="the deal is off"), THERE, RECORD, id="other bytes"),
        pytest.param(replace(SENT, text=TEXT + " "), THERE, RECORD, id="one byte more"),
        pytest.param(replace(SENT, label=INTERNAL), THERE, RECORD, id="another label"),
        pytest.param(
            replace(SENT, address=str(HOME)), replace(THERE, address=str(HOME)), RECORD, id="another destination"
        ),
        pytest.param(SENT, replace(THERE, clearance=INTERNAL), RECORD, id="cleared otherwise"),
        pytest.param(SENT, THERE, replace(RECORD, principal="ann"), id="somebody without the right"),
        pytest.param(SENT, THERE, replace(RECORD, principal="nobody"), id="nobody there is"),
    ],
)
def test_a_record_lets_nothing_else_through(delivery: Delivery, there: Destination, record: Release) -> None:
    ann = principal("console:ann", role="admin")
    spoken = keeper(principals={"owner": OWNER, "ann": ann}).output.recheck(delivery, there, NOW, record)
    assert blocked_by(spoken.decision) == {"no_write_down"}


def test_a_record_counts_no_more_when_the_right_or_the_clearance_is_gone() -> None:
    for change in ({"may_release": False}, {"clearance": "INTERNAL"}):
        spoken = keeper(principals={"owner": {**OWNER, **change}}).output.recheck(SENT, THERE, NOW, RECORD)
        assert blocked_by(spoken.decision) == {"no_write_down"}


def test_bytes_that_a_rule_would_change_are_not_sent() -> None:
    spoken = keeper(patterns={"deal": "deal"}, rules=[HIDE]).output.recheck(SENT, THERE, NOW, RECORD)
    assert blocked_by(spoken.decision) == {"fails_closed"}


def test_a_release_needs_the_right_and_an_address_cleared_for_the_text() -> None:
    here = standing(CONFIDENTIAL)
    low = replace(here, destination=replace(here.destination, clearance=INTERNAL))
    assert keeper().output.release(here, THERE, TEXT, CONFIDENTIAL).decision.verdict is Verdict.ALLOW
    assert blocked_by(keeper().output.release(low, THERE, TEXT, CONFIDENTIAL).decision) == {"no_write_down"}
    assert blocked_by(gate([]).output.release(here, THERE, TEXT, CONFIDENTIAL).decision) == {"no_write_down"}


def test_a_record_is_read_as_it_was_written_or_not_at_all() -> None:
    confirmed, written = str(EventType.RELEASE_CONFIRMED), release_json(RECORD)
    assert event_from(confirmed, written) == ReleaseConfirmed(RECORD)
    for name in written:
        with pytest.raises(TypeError):
            event_from(confirmed, {**written, name: None})


# --- at work ---------------------------------------------------------------------------------------


async def test_exactly_what_was_shown_is_sent_once_and_audited_before(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**HELD)) as owner:
        await confidential(owner)
        shown = await owner.say("/release last to guest")
        assert f"| You said: {TEXT}" in shown
        assert "labelled CONFIDENTIAL~" in shown
        assert "cleared for PUBLIC" in shown
        assert "→ guest" not in owner.shown
        told = await owner.say(f"/release confirm {code(shown)}")
        assert f"→ guest: You said: {TEXT}" in told
        assert f"Released under {code(shown)}: sent" in told
        (sent,) = [one for one in await owner.app.store.outbox.deliveries(owner.sid) if one.address == str(GUEST)]
        assert (sent.text, sent.state) == (f"You said: {TEXT}", DeliveryState.SENT)
        rows = [record async for record in owner.app.chains.records(owner.sid)]
        (let,) = [row.body for row in rows if row.body.get("release") == code(shown)]
        assert (let["verdict"], let["released"]) == ("ALLOW", ["released by owner"])
        steps = [row.body["step"] for row in rows if row.kind == "release"]
        assert steps == ["shown", "confirmed"]
        assert (await owner.state()).taint.level is CONFIDENTIAL.level


async def test_what_is_released_to_a_person_is_for_that_person(tmp_path: Path) -> None:
    gus = principal("console:guest", role="member", clearance="PUBLIC")
    async with running(tmp_path, policy(principals={"owner": OWNER, "gus": gus})) as owner:
        await confidential(owner)
        await owner.say(f"/release confirm {code(await owner.say('/release last to guest'))}")
        (sent,) = [one for one in await owner.app.store.outbox.deliveries(owner.sid) if one.address == str(GUEST)]
        assert (sent.meant_for, sent.state) == ("gus", DeliveryState.SENT)


@pytest.mark.parametrize(
    "hidden",
    [
        "a\u200bb",
        "a\u202eb",
        "a\U000e0041b",
        "a\ufe0fb",
        "a\U000e0100b",
        "a\u3164b",
        "a\u180bb",
        "a\u2800b",
        "a ",
        "a\t\nb",
    ],
)
async def test_a_text_that_holds_what_does_not_show_is_not_released(tmp_path: Path, hidden: str) -> None:
    """A model could put there what the person never saw, and whoever receives it could read it."""
    async with running(tmp_path, policy(**HELD), parts=parts(model=Scripted(hidden))) as owner:
        await owner.say("hello")
        assert "invisible characters" in await owner.say("/release last to guest")


async def test_what_is_meant_can_be_named_by_its_number(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**HELD)) as owner:
        await confidential(owner)
        typed = next(event for event in await owner.events() if event.body == UserMessage(TEXT))
        assert f"| {TEXT}\n" in await owner.say(f"/release {typed.seq} to guest")
        read = next(event for event in await owner.events() if event.type is EventType.TOOL_RESULT)
        for which in (read.seq, 9999, "nothing"):
            assert "There is nothing of that name here" in await owner.say(f"/release {which} to guest")


async def test_a_code_is_forgotten_after_its_time(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**HELD)) as owner:
        await confidential(owner)
        await owner.say("/release last to guest")
        (asked,) = bodies(await owner.events(), ReleaseRequested)
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner(), idle=True)
        assert claim is not None
        old = replace(asked.release, code="zzzzzzzz", expires_at=claim.now)
        write = Write(Ids().op(), claim.state.seq, events=(event_log.release_requested(standing(), old),), release=True)
        await owner.app.store.sessions.record(claim, write)
        assert "There is nothing of that name here" in await owner.say("/release confirm zzzzzzzz")
        assert "→ guest" not in owner.shown


async def test_a_delivery_that_refers_to_what_is_no_release_is_withheld(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**HELD)) as owner:
        await confidential(owner)
        await owner.say("/release last to guest")
        (asked,) = [event for event in await owner.events() if event.type is EventType.RELEASE_REQUESTED]
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner(), idle=True)
        assert claim is not None
        text = f"You said: {TEXT}"
        forged = [
            NewDelivery(f"k{seq}", str(GUEST), text, asked.label, "message", release=seq)
            for seq in (asked.seq, 1, 9999)
        ]
        await owner.app.store.sessions.record(
            claim, Write(Ids().op(), claim.state.seq, deliver=tuple(forged), release=True)
        )
        await owner.app.outbox.collect(owner.sid)
        states = [one.state for one in await owner.app.store.outbox.deliveries(owner.sid) if one.address == str(GUEST)]
        assert states == [DeliveryState.WITHHELD] * 3
        assert "→ guest" not in owner.shown


async def test_a_code_counts_once(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**HELD)) as owner:
        await confidential(owner)
        confirm = f"/release confirm {code(await owner.say('/release last to guest'))}"
        assert "→ guest" in await owner.say(confirm)
        assert "There is nothing of that name here" in await owner.say(confirm)
        assert owner.shown.count("→ guest") == 1


async def test_a_code_counts_for_whom_it_was_shown_to_alone(tmp_path: Path) -> None:
    other = {**OWNER, "accounts": ["console:other"]}
    async with running(tmp_path, policy(principals={"owner": OWNER, "other": other})) as owner:
        await confidential(owner)
        confirm = f"/release confirm {code(await owner.say('/release last to guest'))}"
        beside = Person(owner.app, owner.output, account="console:other")
        assert "There is nothing of that name here" in await beside.say(confirm)
        assert "→ guest" in await owner.say(confirm)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"recipients": chats("PUBLIC")}, id="cleared for less"),
        pytest.param({"patterns": {"deal": "deal"}, "rules": [HIDE]}, id="other bytes"),
    ],
)
async def test_what_changed_since_it_was_shown_is_not_released(tmp_path: Path, change: dict[str, object]) -> None:
    guest = principal("console:guest", role="member", clearance="INTERNAL")
    before = {"principals": {"owner": OWNER, "guest": guest}, "recipients": chats("INTERNAL")}
    async with running(tmp_path, policy(**before)) as owner:
        await confidential(owner)
        confirm = f"/release confirm {code(await owner.say('/release last to guest'))}"
        (tmp_path / "config.yaml").write_text(policy(**{**before, **change}))
        assert "is in force" in await owner.say("/policy reload")
        assert CHANGED in await owner.say(confirm)
        assert all(event.type is not EventType.RELEASE_CONFIRMED for event in await owner.events())


async def test_no_read_up_what_may_not_be_shown_here_any_more_is_as_what_is_not_there(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**HELD)) as owner:
        await confidential(owner)
    lowered = policy(principals={"owner": {**OWNER, "clearance": "INTERNAL"}})
    async with running(tmp_path, lowered) as owner:
        assert await owner.say("/release last to guest") == await owner.say("/release 9999 to guest")


@pytest.mark.parametrize(
    "typed, told",
    [
        ("/release", "Write it as `/release"),
        ("/release last guest", "Write it as `/release"),
        ("/release last to gest", "Unknown recipient"),
        ("/release last to guest", "There is nothing of that name here"),
        ("/release confirm aaaaaaaa", "There is nothing of that name here"),
        ("/help release", "Send exactly the shown text"),
    ],
)
async def test_what_is_typed_wrong_is_told(tmp_path: Path, typed: str, told: str) -> None:
    async with running(tmp_path, policy(**HELD)) as owner:
        assert told in await owner.say(typed)


async def test_without_the_right_there_is_no_such_command(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await confidential(owner)
        told = [await owner.say(f"/{word}") for word in ("release last to guest", "release confirm a", "rel")]
        assert told == [
            "  Unknown command `/release`. `/help` lists them.\n",
            "  Unknown command `/release`. `/help` lists them.\n",
            "  Unknown command `/rel`. `/help` lists them.\n",
        ]
        assert "/release" not in await owner.say("/help")
        assert "Unknown command `/release`" in await owner.say("/help release")
        assert "no_write_down" in await owner.say(note("guest", "hi"))
        assert "/release" not in await owner.say("/why")
