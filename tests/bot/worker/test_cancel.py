"""A stop at each instant: queued, before the model, during it, during a call, while it waits, while it ends."""

import asyncio
import threading
from pathlib import Path

import anyio
import pytest

from bot.agent.calls import OUTCOME_UNKNOWN
from bot.core.ids import Ids
from bot.history import event_log
from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import ToolResult, YieldReason
from bot.sessions.models import Status, Turn, Write
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from bot.worker.turn_runner import STOPPED
from channels.messages import Address
from channels.port import Audience
from policy.labels import PUBLIC
from policy.request import Effect
from tests.bot.board import Board
from tests.bot.kit import (
    TOP,
    Probe,
    Scripted,
    TextArguments,
    bang,
    eventually,
    note,
    parts,
    policy,
    proposed,
    results,
    standing,
    unanswered,
)
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

GRACE = policy(blocks={"limits": {"cancel_grace_seconds": 1}})


class Slow:
    """A call that goes on until it is let go; `cancelled` tells that it was ended before."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.let_go = asyncio.Event()
        self.cancelled = False

    async def __call__(self, _arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        self.started.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Result("done after all")


def sending(does: Slow) -> Probe:
    """Return a call of which others notice something."""
    return Probe(does=does, effect=Effect.SEND, declared=CallFacts(clearance=TOP), repeatable=False)


async def stopped(owner: Person) -> None:
    """Check that the last turn was stopped, and that nothing is left of it."""
    state = await owner.settled()
    assert state is not None
    assert state.last_turn is not None
    assert (state.status, state.last_turn.reason) == (Status.IDLE, YieldReason.CANCELED)
    assert not unanswered(await owner.events())


async def test_what_is_queued_is_cancelled_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await owner.send("hello")
        stop = await owner.app.store.sessions.stop(owner.sid, actor="owner")
        assert (stop.running, stop.cancelled) == (False, 1)
        state = await owner.state()
        assert (state.status, state.waiting_items, state.turn) == (Status.IDLE, 0, None)


async def test_a_stop_before_the_model_is_asked_asks_none(tmp_path: Path) -> None:
    model = Scripted("never")
    async with running(tmp_path, serve=False, parts=parts(model=model)) as owner:
        await owner.send("hello")
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner())
        assert claim is not None
        # A worker had begun with it, and gave it back.
        turn = Turn("t", claim.items[0].position, claim.items[0].dedupe, "owner", claim.now)
        said = (event_log.user_message(standing(turn="t"), "owner", "hello", label=PUBLIC),)
        write = Write(Ids().op(), claim.state.seq, take=1, turn=turn, status=Status.RUNNING, events=said)
        await owner.app.store.sessions.record(claim, write)
        await owner.app.store.sessions.release(claim)
        await owner.app.store.sessions.stop(owner.sid, actor="owner")
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await stopped(owner)
        assert not model.asked


async def test_a_model_that_is_being_asked_is_abandoned_and_what_it_used_is_not_known(tmp_path: Path) -> None:
    model = Scripted("never", wait=asyncio.Event())
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.send("hello")

        async def asked() -> bool:
            return bool(model.asked)

        await eventually(asked)
        async with asyncio.timeout(60):
            assert STOPPED in await owner.say("/stop")
        await stopped(owner)
        usage = (await owner.state()).usage
        assert (usage.requests, usage.complete) == (1, False)


async def test_a_call_that_nobody_notices_is_cancelled_at_once(tmp_path: Path) -> None:
    slow = Slow()
    config = policy(blocks={"limits": {"cancel_grace_seconds": 600}})
    async with running(tmp_path, config, parts=parts(Probe(does=slow))) as owner:
        await owner.send(bang("probe"))
        await asyncio.wait_for(slow.started.wait(), 60)
        async with asyncio.timeout(60):
            assert STOPPED in await owner.say("/stop")
        assert slow.cancelled
        await stopped(owner)


async def test_a_call_that_others_notice_may_finish_and_its_result_is_kept(tmp_path: Path) -> None:
    slow = Slow()
    config = policy(blocks={"limits": {"cancel_grace_seconds": 600}})
    async with running(
        tmp_path, config, parts=parts(sending(slow), model=Scripted([proposed("probe")], "never"))
    ) as owner:
        await owner.send("go")
        await asyncio.wait_for(slow.started.wait(), 60)
        await owner.say("/stop", wait=False)
        await asyncio.sleep(0.3)
        assert not slow.cancelled
        slow.let_go.set()
        await stopped(owner)
        (result,) = bodies(await owner.events(), ToolResult)
        assert (result.text, result.outcome.value) == ("done after all", "ok")
        assert STOPPED in owner.shown
        assert "never" not in owner.shown


async def test_one_that_does_not_finish_in_time_is_cancelled_and_its_outcome_is_not_known(tmp_path: Path) -> None:
    slow = Slow()
    async with running(tmp_path, GRACE, parts=parts(sending(slow))) as owner:
        await owner.send(bang("probe"))
        await asyncio.wait_for(slow.started.wait(), 60)
        begun = anyio.current_time()
        async with asyncio.timeout(60):
            await owner.say("/stop")
        assert anyio.current_time() - begun >= 1
        assert slow.cancelled
        await stopped(owner)
        (result,) = bodies(await owner.events(), ToolResult)
        assert (result.text, result.outcome.value) == (OUTCOME_UNKNOWN, "interrupted")


@pytest.mark.parametrize("stuck", ["a thread", "a coroutine"])
async def test_one_that_ignores_it_is_left_to_itself(tmp_path: Path, stuck: str) -> None:
    started, over, slot = asyncio.Event(), threading.Event(), asyncio.Event()

    async def ignore(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        started.set()
        if stuck == "a thread":
            await anyio.to_thread.run_sync(over.wait)
        while not over.is_set():
            try:
                await slot.wait()
            except asyncio.CancelledError:
                continue
            break
        return Result("much later")

    async with running(tmp_path, GRACE, parts=parts(Probe(does=ignore, effect=Effect.SEND))) as owner:
        try:
            await owner.send(bang("probe"))
            await asyncio.wait_for(started.wait(), 60)
            async with asyncio.timeout(60):
                assert STOPPED in await owner.say("/stop")
            await stopped(owner)
            # Its slot is free, and what it gives in the end is nobody's.
            assert "You said: hello" in await owner.say("hello")
        finally:
            over.set()
            slot.set()
        await asyncio.sleep(0.2)
        assert "much later" not in str(await owner.events())
        assert [outcome for _, outcome in results(await owner.events())] == ["interrupted"]


async def test_a_stop_while_people_are_asked_cancels_the_question(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(f"{bang('read_file', path='public/welcome.md')}\n{note('guest', 'hello')}")
        assert (await owner.state()).asks
        async with asyncio.timeout(60):
            await owner.say("/stop")
        await stopped(owner)
        assert await owner.app.store.approvals.waiting() == ()
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert asked.state is ApprovalState.CANCELLED
        assert "→ guest" not in owner.shown


async def test_a_stop_while_the_turn_ends_comes_too_late(tmp_path: Path) -> None:
    model, ending, go_on = Scripted("that is it"), asyncio.Event(), asyncio.Event()

    class Slowly(Board):
        async def audience(self, address: Address) -> Audience:
            if model.asked and not ending.is_set():
                # The readers are asked for once more when there is an answer for them.
                ending.set()
                await go_on.wait()
            return await super().audience(address)

    board = Slowly()
    people = {"owner": principal("console:owner", "board:owner")}
    channels = {"board": {"classification": "top"}, "console": {"classification": "top"}}
    config = policy(principals=people, channels=channels, recipients={})
    async with running(tmp_path, config, channels=[board], parts=parts(model=model)) as owner:
        there = Person(owner.app, owner.output, Address("board", "owner"), "board:owner")
        await there.send("hello")
        await asyncio.wait_for(ending.wait(), 60)
        stop = await owner.app.store.sessions.stop(there.sid, actor="owner")
        assert stop.running
        owner.app._interrupt(there.sid)  # pyright: ignore[reportPrivateUsage] - as the command does
        go_on.set()
        state = await there.settled()
        assert state is not None
        assert state.last_turn is not None
        assert (state.last_turn.reason, state.stopping) == (YieldReason.COMPLETED, False)
        assert [one.text for one in board.at("owner")] == ["that is it"]
