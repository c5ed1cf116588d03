"""Open questions: they are reminded of once, before their time is over, and may have no time limit."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.delivery.time_left import FOR_EVER as NO_LIMIT
from bot.sessions import approvals
from bot.sessions.approvals import FOR_EVER, Approval
from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.models import Status
from bot.store.schema import session_keys
from policy.labels import PUBLIC
from tests.bot.commands.kit import READ, WRITE
from tests.bot.kit import eventually, policy
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

MINUTE = 60_000


async def one_open(person: Person) -> Approval:
    (found,) = await person.app.store.approvals.of(person.sid)
    return found


async def test_a_question_is_reminded_of_once_also_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        schedules, store = person.app.store.schedules, person.app.store
        assert await schedules.next_due() == -1
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(WRITE)
        question = await one_open(person)
        assert question.remind_at == question.asked_at + 7.5 * MINUTE
        # The timer is in the store, for the worker of any process.
        due = await person.app.store.schedules.next_due()
        assert 7 * MINUTE < due <= 7.5 * MINUTE
    async with running(tmp_path) as person:
        schedules, store = person.app.store.schedules, person.app.store
        soon = Timer(TimerKind.REMIND, f"{person.sid}/{question.id}", store.tokens.now_ms())
        reminder = (
            f"Question {question.id} still waits for an answer, 10 min left. `/approvals {question.id}` shows it."
        )

        async def reminded() -> bool:
            return reminder in person.shown

        async def over() -> bool:
            return await schedules.next_due() == -1

        await schedules.set_timer(soon)
        await eventually(reminded)
        await eventually(over)
        # A worker that dies before it settles a timer lets another one set it off.
        await schedules.set_timer(replace(soon, due=store.tokens.now_ms()))
        await eventually(over)
        await person.settled()
        assert person.shown.count("still waits") == 1
        await person.say(f"/deny {question.id}")
        await schedules.set_timer(replace(soon, due=store.tokens.now_ms()))
        await eventually(over)
        assert len([one for one in await store.outbox.deliveries(person.sid) if one.key.endswith("-soon")]) == 1


def asked(minutes: float) -> Approval:
    made = approvals.ApprovalQuestion("a", {})
    until = int(1 + minutes * MINUTE)
    facts = {"turn": "t", "call": "c", "tool": "a", "binding": "b", "principal": "p", "rules": ()}
    return Approval(id="q", sid="s", generation=1, label=PUBLIC, question=made, expires_at=until, asked_at=1, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "minutes, left",
    [(3.9, None), (4, 2), (6, 2), (8, 2), (10, 2.5), (60 * 24 * 7, 60 * 42)],
)
def test_a_reminder_leaves_a_quarter_of_the_time_and_two_minutes(minutes: float, left: float | None) -> None:
    question = asked(minutes)
    assert question.remind_at == (0 if left is None else question.expires_at - left * MINUTE)
    assert replace(question, asked_at=0).remind_at == 0
    assert replace(question, expires_at=FOR_EVER).remind_at == 0


async def test_without_a_limit_a_question_waits_until_people_answer_or_stop(tmp_path: Path) -> None:
    config = policy(blocks={"limits": {"approval_minutes": None}})
    async with running(tmp_path, config) as person:
        await person.say(READ)
        await person.say(WRITE)
        question = await one_open(person)
        assert question.endless
        # Its copies are kept for as long, so that they can be edited.
        assert await life_of_outbox(person) == -1
        assert await person.app.store.schedules.next_due() == -1
        assert NO_LIMIT in await person.say("/approvals")
        await person.say("/stop")
        assert (await person.state()).status is Status.IDLE
        assert await life_of_outbox(person) > 0
        await person.say(WRITE)
        later = await one_open_of(person)
        await person.say(f"/approve {later.id}")
        await person.settled()
        assert (tmp_path / "data/files/confidential/note.md").read_text() == "mine"
        await person.say(WRITE)
        await person.say("/reset confirm")
        assert await person.app.store.approvals.of(person.sid) == ()
        assert await life_of_outbox(person) > 0


async def life_of_outbox(person: Person) -> int:
    """Return for how many milliseconds the deliveries of a session are kept, -1 for no limit."""
    connection = person.app.store._shared.connection  # pyright: ignore[reportPrivateUsage] - the store's own clock
    (life,) = await connection.commands(("PTTL", session_keys(person.sid).outbox))
    return life


async def one_open_of(person: Person) -> Approval:
    every = await person.app.store.approvals.of(person.sid)
    return next(one for one in every if one.state is approvals.ApprovalState.PENDING)
