"""The limits of a session: the time of a turn, turns without a person, and the tokens of a conversation."""

import asyncio
from pathlib import Path

import pytest

from bot.agent.loop import ALONE
from bot.budgets import RESET, USED_UP
from bot.core.ids import Ids
from bot.sessions.background.delegation import Parcel
from bot.sessions.budgets import Whose
from bot.sessions.log.event_types import YieldReason
from bot.sessions.messages import Origin, OriginKind, SessionMessage
from bot.sessions.models import SessionState, Status, Turn, Write
from bot.tools.base import Result, ToolContext, ToolServices
from bot.worker.turn_runner import TOO_LATE
from policy.labels import PUBLIC
from tests.bot.kit import Probe, Scripted, TextArguments, bang, eventually, note, parts, policy, proposed, unanswered
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

OWN = f"{USED_UP[Whose.SESSION]}; {RESET}"


def limited(**limits: object) -> str:
    """Return a configuration with some limits."""
    return policy(blocks={"limits": limits})


async def reason(person: Person) -> YieldReason:
    """Return why the last turn ended."""
    state = await person.state()
    assert state.last_turn is not None
    return state.last_turn.reason


async def sleeping(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
    """Take longer than any test does."""
    await asyncio.sleep(600)
    return Result("done")


async def test_a_turn_that_takes_longer_than_it_may_ends(tmp_path: Path) -> None:
    async with running(tmp_path, limited(turn_seconds=1), parts=parts(Probe(does=sleeping))) as owner:
        async with asyncio.timeout(60):
            assert TOO_LATE in await owner.say(bang("probe"))
        assert await reason(owner) is YieldReason.DEADLINE_EXCEEDED
        assert not unanswered(await owner.events())
        assert "You said: hello" in await owner.say("hello")


async def test_a_turn_that_was_claimed_anew_has_what_is_left(tmp_path: Path) -> None:
    config, model = limited(turn_seconds=60), Scripted("never")
    async with running(tmp_path, config, serve=False) as owner:
        await owner.send("hello")
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner())
        assert claim is not None
        first = claim.items[0]
        turn = Turn("t", first.position, first.dedupe, "owner", claim.now, active=60_000)
        write = Write(Ids().op(), claim.state.seq, take=1, turn=turn, status=Status.RUNNING, release=True)
        await owner.app.store.sessions.record(claim, write)
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        await owner.settled()
        assert TOO_LATE in owner.shown
        assert await reason(owner) is YieldReason.DEADLINE_EXCEEDED
        assert not model.asked


async def test_waiting_for_people_does_not_count(tmp_path: Path) -> None:
    async with running(tmp_path, limited(turn_seconds=2)) as owner:
        await owner.say(f"{bang('read_file', path='public/welcome.md')}\n{note('guest', 'hello')}")
        assert (await owner.state()).asks
        await asyncio.sleep(2.5)
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        await owner.say(f"/approve {asked.id}")
        assert await reason(owner) is YieldReason.COMPLETED


async def reported(person: Person, n: int) -> SessionState:
    """Have another session send something, and wait until the turn of it is over."""
    message = SessionMessage(f"report {n}", origin=Origin(OriginKind.MESSAGE, "other"))
    await person.app.store.delegation.receive(Parcel(person.sid, 1, f"p{n}", "owner", PUBLIC, message))
    await person.app.store.wake.again((person.sid,))

    async def over() -> bool:
        state = await person.state()
        return not state.waiting_items and state.turn is None and not state.undelivered

    await eventually(over)
    return await person.state()


async def test_a_session_that_only_background_work_drives_reaches_its_cap(tmp_path: Path) -> None:
    model = Scripted("fine")
    async with running(tmp_path, limited(turns_alone=2), parts=parts(model=model)) as owner:
        await owner.say("hello")
        for n in range(2):
            await reported(owner, n)
            assert await reason(owner) is YieldReason.COMPLETED
        asked = len(model.asked)
        for n in range(2, 5):
            await reported(owner, n)
            assert await reason(owner) is YieldReason.MAX_TURNS
        assert len(model.asked) == asked
        assert owner.shown.count(ALONE.format(turns=2)) == 1
        # A person's message counts anew, and what came meanwhile is known.
        assert "fine" in await owner.say("and now?")
        assert "report 4" in model.read()
        await reported(owner, 5)
        assert await reason(owner) is YieldReason.COMPLETED


async def test_no_cap_is_no_cap(tmp_path: Path) -> None:
    async with running(tmp_path, limited(turns_alone=None), parts=parts(model=Scripted("fine"))) as owner:
        await owner.say("hello")
        for n in range(3):
            assert (await reported(owner, n)).turns_alone == n + 1
            assert await reason(owner) is YieldReason.COMPLETED


async def test_a_conversation_ends_where_its_tokens_do_and_begins_anew_with_a_reset(tmp_path: Path) -> None:
    model = Scripted("fine", silent=True)  # so that all that is set aside counts
    async with running(tmp_path, limited(session_tokens=40_000), parts=parts(model=model)) as owner:
        said = [await owner.say("hello") for _ in range(5)]
        asked = len(model.asked)
        assert OWN in said[-1]
        assert 1 <= asked <= 4
        assert await reason(owner) is YieldReason.BUDGET_EXCEEDED
        assert OWN in await owner.say("/summarize")
        assert len(model.asked) == asked
        await owner.say("/reset confirm")
        assert "fine" in await owner.say("hello")


async def test_a_recap_counts_for_the_tokens_of_its_conversation(tmp_path: Path) -> None:
    model = Scripted("fine", silent=True)
    async with running(tmp_path, limited(session_tokens=22_000), parts=parts(model=model)) as owner:
        await owner.say("hello")
        said = [await owner.say(f"/summarize topic {n}") for n in range(4)]
        assert OWN in said[-1]
        assert 2 <= len(model.asked) <= 3
        assert OWN in await owner.say("hello")


async def test_a_step_is_paid_for_before_it_is_made(tmp_path: Path) -> None:
    model = Scripted([proposed("probe")], "never", silent=True)
    async with running(tmp_path, limited(session_tokens=8_000), parts=parts(Probe(), model=model)) as owner:
        shown = await owner.say("hello")
        assert OWN in shown
        assert len(model.asked) <= 1
        assert not unanswered(await owner.events())
