"""One turn after another: crashes that heal, leases that are lost, stops, resets, and bugs that stay in their turn."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse

from bot.agent.context import thought
from bot.app.workers import PARALLEL
from bot.core.ids import Ids
from bot.core.json_values import JsonObject
from bot.gate.results import NOT_KNOWN
from bot.history import event_log
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import AgentThinking, EventBody, TurnError, UnknownEvent, UserMessage, YieldReason
from bot.sessions.log.events import Event, EventType, NewEvent
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Status, Turn, Write
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from bot.worker.turn_runner import ATTEMPTS, STOPPED
from channels.messages import Address, Signal
from policy.labels import PUBLIC, join_all, parse
from policy.request import Effect
from tests.bot.board import Board
from tests.bot.kit import (
    CONFIDENTIAL,
    INTERNAL,
    TOP,
    Probe,
    Scripted,
    TextArguments,
    bang,
    eventually,
    parts,
    policy,
    proposed,
    results,
    standing,
    unanswered,
)
from tests.bot.rooms import Rooms
from tests.clocks import LEASE_SECONDS
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

FAST = {"store": {"lease_seconds": LEASE_SECONDS}}
CARD = "4111 1111 1111 1111"


class Hanging:
    """A tool body that hangs the first time it runs, and says how often it ran."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.times = 0

    async def __call__(self, _arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        self.times += 1
        if self.times == 1:
            self.started.set()
            await asyncio.sleep(600)
        return Result("done at last")


@asynccontextmanager
async def crashing(folder: Path, config: str, probe: Probe, body: Hanging, *replies: object) -> AsyncGenerator[Person]:
    """Run a turn until a tool hangs, drop the worker there, and open the application anew."""
    probe.does = body
    model = Scripted(*replies) if replies else None  # pyright: ignore[reportArgumentType] - replies
    async with running(folder, config, parts=parts(probe, model=model), serve=False) as owner:
        serving = asyncio.create_task(owner.app.serve())
        await owner.send(bang(probe.name))
        await asyncio.wait_for(body.started.wait(), 60)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    async with running(folder, config, parts=parts(probe, model=model)) as owner:
        yield owner


def seqs(log: tuple[Event, ...]) -> list[int]:
    return [event.seq for event in log]


@pytest.mark.parametrize("repeatable", [True, False])
async def test_crash_heals_between_call_and_result(tmp_path: Path, *, repeatable: bool) -> None:
    body = Hanging()
    probe = Probe(repeatable=repeatable, declared=CallFacts(result=INTERNAL))
    async with crashing(tmp_path, policy(blocks=FAST), probe, body) as owner:
        await owner.settled()
        log = await owner.events()
        assert results(log) == [("probe", "ok" if repeatable else "interrupted")]
        assert body.times == (2 if repeatable else 1)
        assert ("done at last" in owner.shown) is repeatable
        assert ("nobody knows whether it took effect" in owner.shown) is not repeatable
        state = await owner.state()
        assert state.taint == INTERNAL == join_all(event.label for event in log if event.admitted)
        (turn,) = (await owner.app.store.lifecycle.turns(state.sid)).turns
        assert (turn.told.attempt, state.usage.complete) == (2, False)
        assert seqs(log) == list(range(1, len(log) + 1))
        assert [event.type for event in log].count(EventType.AGENT_MESSAGE) == 1


async def test_crash_heals_with_some_results_present_and_drops_none(tmp_path: Path) -> None:
    body = Hanging()
    slow = Probe("slow", effect=Effect.SEND, declared=CallFacts(clearance=TOP), repeatable=False)
    step = [proposed("current_time"), proposed("slow"), proposed("current_time"), proposed("format_disk")]
    async with crashing(tmp_path, policy(blocks=FAST), slow, body, step, "all done") as owner:
        await owner.settled()
        log = await owner.events()
        assert [tool for tool, _ in results(log)] == ["current_time", "slow", "current_time", "format_disk"]
        assert dict(results(log))["slow"] == "interrupted"
        assert not unanswered(log)
        assert "all done" in owner.shown


async def test_a_turn_that_takes_its_worker_down_every_time_is_given_up(tmp_path: Path) -> None:
    config = policy(blocks=FAST)
    async with running(tmp_path, config, serve=False) as owner:
        await owner.send("hello")
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner())
        assert claim is not None
        # Given back in order once, which does not count.
        turn = Turn("t", claim.items[0].position, claim.items[0].dedupe, "owner", claim.now, attempt=ATTEMPTS + 1)
        write = Write(Ids().op(), claim.state.seq, take=1, turn=turn, status=Status.RUNNING, events=dangling())
        await owner.app.store.sessions.record(claim, write)
        await owner.app.store.sessions.release(claim)
    model = Scripted("never mind")
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        await owner.settled()
        assert not model.asked
        log = await owner.events()
        assert f"given up after {ATTEMPTS} attempts" in str(log)
        assert results(log) == [("probe", "interrupted")]
        assert not unanswered(log)
        assert "Something went wrong here" in owner.shown
        assert (await owner.state()).status is Status.FAILED
        assert "never mind" in await owner.say("again")
        assert (await owner.state()).status is Status.IDLE


async def test_a_turn_that_workers_give_back_in_order_is_not_given_up(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await owner.send("hello")
        claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner())
        assert claim is not None
        turn = Turn("t", claim.items[0].position, claim.items[0].dedupe, "owner", claim.now)
        said = (event_log.user_message(standing(turn="t"), "owner", "hello", label=PUBLIC),)
        write = Write(Ids().op(), claim.state.seq, take=1, turn=turn, status=Status.RUNNING, events=said)
        await owner.app.store.sessions.record(claim, write)
        for _ in range(2 * ATTEMPTS):
            await owner.app.store.sessions.release(claim)
            claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner())
            assert claim is not None
        await owner.app.store.sessions.release(claim)
    async with running(tmp_path, parts=parts(model=Scripted("well then"))) as owner:
        await owner.settled()
        assert "well then" in owner.shown


def dangling() -> tuple[NewEvent, ...]:
    """Return what a crashed attempt left: a response whose call has no result."""
    here = standing(turn="t")
    response = ModelResponse(parts=[proposed("probe", name="t-0-0")])
    return (
        event_log.user_message(here, "owner", "hello", label=PUBLIC),
        event_log.thinking(here, thought(response)),
    )


async def test_stale_fence_writes_nothing(tmp_path: Path) -> None:
    body = Hanging()
    probe = Probe(does=body, declared=CallFacts(result=INTERNAL))
    async with running(tmp_path, policy(blocks=FAST), parts=parts(probe)) as owner:
        await owner.send(bang("probe"))
        await asyncio.wait_for(body.started.wait(), 60)
        before = await owner.events()
        await owner.say("/reset confirm")  # raises the fence and begins a new generation
        assert "You said: fresh" in await owner.say("fresh")
        log = await owner.events()
        assert log[: len(before)] == before
        assert log[len(before)].type is EventType.SESSION_RESET
        assert results(log) == []
        assert (await owner.state()).taint == PUBLIC


async def test_a_lost_lease_stops_a_slow_tool_and_writes_nothing(tmp_path: Path) -> None:
    cancelled = asyncio.Event()
    started = asyncio.Event()

    async def hang(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> None:
        started.set()
        try:
            await asyncio.sleep(600)
        finally:
            cancelled.set()

    async with running(tmp_path, policy(blocks=FAST), parts=parts(Probe(does=hang))) as owner:
        await owner.send(bang("probe"))
        await asyncio.wait_for(started.wait(), 60)
        before = await owner.events()
        await owner.app.store.sessions.reset(
            owner.sid, op=Ids().op(), actor="owner", audit=()
        )  # nobody told the worker
        await asyncio.wait_for(cancelled.wait(), 60)
        assert "You said: fresh" in await owner.say("fresh")
        log = await owner.events()
        assert log[: len(before)] == before
        assert results(log) == []


async def test_a_stop_in_the_middle_of_a_slow_tool_ends_it_at_once(tmp_path: Path) -> None:
    body = Hanging()
    async with running(tmp_path, parts=parts(Probe(does=body))) as owner:
        await owner.send(bang("probe"))
        await asyncio.wait_for(body.started.wait(), 60)
        async with asyncio.timeout(60):
            shown = await owner.say("/stop")
        assert STOPPED in shown
        state = await owner.state()
        assert state.last_turn is not None
        assert (state.status, state.last_turn.reason) == (Status.IDLE, YieldReason.CANCELED)
        assert not unanswered(await owner.events())


async def test_a_stop_cancels_what_waits_too(tmp_path: Path) -> None:
    body = Hanging()
    async with running(tmp_path, parts=parts(Probe(does=body))) as owner:
        await owner.send(bang("probe"))
        await asyncio.wait_for(body.started.wait(), 60)
        await owner.send("one")
        await owner.send("two")
        shown = await owner.say("/stop")
        assert "2 waiting messages cancelled" in shown
        assert "You said" not in owner.shown
        assert (await owner.state()).waiting_items == 0


async def test_accepted_once_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.say("/queue queue")
        every = ["hello", *(f"number {n}" for n in range(10))]
        for text in every[1:]:
            await owner.send(text)
        await owner.settled()
        said = [event.body.text for event in await owner.events() if isinstance(event.body, UserMessage)]
        assert said == every
        shown = [line for line in owner.shown.splitlines() if "You said" in line]
        assert shown == [f"  You said: {text}" for text in every]


async def test_sessions_run_beside_one_another(tmp_path: Path) -> None:
    body = Hanging()
    guest = principal("console:guest", role="member", clearance="PUBLIC")
    top = principal("console:owner")
    config = policy(principals={"owner": top, "guest": guest})
    async with running(tmp_path, config, parts=parts(Probe(does=body))) as owner:
        other = Person(owner.app, owner.output, owner.address.__class__("console", "guest"), "console:guest")
        await owner.send(bang("probe"))
        await asyncio.wait_for(body.started.wait(), 60)
        assert "→ guest: You said: hello" in await other.say("hello")
        assert (await owner.state()).status is Status.RUNNING


async def test_a_message_above_the_ceiling_is_rejected_and_not_admitted(tmp_path: Path) -> None:
    config = policy(
        channels={"console": {"classification": "top", "inbound": "CONFIDENTIAL"}},
        principals={"owner": principal("console:owner", clearance="INTERNAL")},
    )
    model = Scripted("leak")
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        shown = await owner.say("the plan")
        assert "read_is_decided_before_it_happens" in shown
        assert not model.asked
        log = await owner.events()
        assert EventType.USER_MESSAGE not in [event.type for event in log]
        state = await owner.state()
        assert (state.taint, state.waiting_items, state.status) == (PUBLIC, 0, Status.IDLE)
        rows = [row.body for row in await owner.app.store.audit.records(owner.sid)]
        assert [row["hook"] for row in rows if row["verdict"] == "BLOCK"] == ["PRE_CONTEXT_INJECTION"]


async def test_redaction_of_a_message_is_real(tmp_path: Path) -> None:
    rules = [{"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "REDACT"}]
    model = Scripted("thanks")
    async with running(tmp_path, policy(rules=rules), parts=parts(model=model)) as owner:
        await owner.say(f"charge {CARD}")
        assert "charge [redacted: payment-card]" in model.read()
        assert CARD not in str(await owner.events())


async def test_a_message_raises_the_taint_to_its_label(tmp_path: Path) -> None:
    config = policy(channels={"console": {"classification": "top", "inbound": "CONFIDENTIAL"}})
    async with running(tmp_path, config) as owner:
        await owner.say("hello")
        assert (await owner.state()).taint == CONFIDENTIAL
        assert "by message" in await owner.say("/taint")


async def test_a_principal_who_is_gone_has_no_clearance_left(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
    async with running(tmp_path, serve=False) as owner:
        await owner.send("what did I read?")
    heir = principal("console:owner")
    async with running(tmp_path, policy(principals={"heir": heir})) as owner:
        await owner.settled()
        *_, told = await owner.app.store.outbox.deliveries(owner.sid)
        assert (NOT_KNOWN in told.text, told.state) == (True, "failed")
        # Who has the account now did not ask.
        assert owner.shown == ""


async def test_a_bug_in_one_turn_leaves_the_worker_running_and_the_chat_a_reference(tmp_path: Path) -> None:
    async with running(tmp_path, parts=parts(model=Scripted(KeyError("hunter2"), "fine"))) as owner:
        shown = await owner.say("go")
        assert "hunter2" not in shown
        (error,) = bodies(await owner.events(), TurnError)
        assert error.reference in shown
        assert "hunter2" in error.text
        state = await owner.state()
        assert state.last_turn is not None
        assert state.last_turn.error == error.reference
        assert "fine" in await owner.say("again")


async def test_a_turn_that_takes_long_shows_that_it_still_goes_on(tmp_path: Path) -> None:
    shown, goes_on = list[Signal](), asyncio.Event()

    class Lamp(Board):
        async def signal(self, address: Address, signal: Signal) -> None:
            assert address == Address("board", "owner")
            shown.append(signal)
            if signal is Signal.STILL:
                goes_on.set()

    people = {"owner": principal("console:owner", "board:owner")}
    config = policy(
        principals=people,
        channels={"board": {"classification": "top"}, "console": {"classification": "top"}},
        recipients={},
    )
    model = Scripted("done", wait=goes_on)
    async with running(tmp_path, config, parts=parts(model=model), channels=[Lamp()]) as owner:
        there = Person(owner.app, owner.output, Address("board", "owner"), "board:owner")
        await there.send("think hard")
        await there.settled()

        async def over() -> bool:
            return Signal.DONE in shown

        await eventually(over)
    assert (shown[0], set(shown[1:-1]), shown[-1]) == (Signal.WORKING, {Signal.STILL}, Signal.DONE)


async def test_the_sweep_finds_work_nobody_told_of(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        item = NewItem(owner.sid, "d", "owner", PUBLIC, SessionMessage("hello"), str(owner.address), "owner")
        await owner.app.store.sessions.accept(replace(item, agent=await owner.app.agents.pin("owner")))
        assert await owner.app.store.wake.ready(wait=1) == (owner.sid,)  # the hint is lost here
    async with running(tmp_path) as owner:
        await owner.settled()
        assert "You said: hello" in owner.shown


async def test_a_turn_runs_where_the_channel_of_its_home_is_served(tmp_path: Path) -> None:
    rooms, home = Rooms(), Address("room", "owner")
    async with running(tmp_path) as desk:
        store, sid = desk.app.store, desk.app.session_id(home)
        item = NewItem(sid, "d1", "owner", PUBLIC, SessionMessage("hello"), str(home), "owner")
        await store.sessions.accept(replace(item, agent=await desk.app.agents.pin("owner")))
        await desk.say("and here?")
        before = await store.sessions.state(sid)
        assert before is not None
        assert (before.status, before.turn) == (Status.QUEUED, None)
        async with running(tmp_path, channels=[rooms]) as there:
            await replace(there, address=home).settled()
            assert rooms.said == ["You said: hello"]


async def test_taint_survives_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
    async with running(tmp_path) as owner:
        assert (await owner.state()).taint == parse("CONFIDENTIAL~")
        assert "CONFIDENTIAL~" in await owner.say("/taint")


@pytest.mark.parametrize(
    "body, error",
    [
        pytest.param(UnknownEvent("tool.result", {"text": "no tool"}), "SchemaError", id="a record nobody can read"),
        pytest.param(AgentThinking({}), "ValidationError", id="what a provider said"),
    ],
)
async def test_a_session_that_cannot_be_worked_does_not_end_the_others(
    tmp_path: Path, body: EventBody, error: str
) -> None:
    async with running(tmp_path) as owner:
        store, home = owner.app.store, Address("console", "broken")
        sid = owner.app.session_id(home)
        await store.sessions.accept(NewItem(sid, "d1", "owner", PUBLIC, SessionMessage("hello"), str(home), "owner"))
        broken = NewEvent("tool", parse("PUBLIC~"), body, admitted=True)
        # The worker may have it first, and nobody is told when it is done.
        while (claim := await store.sessions.claim(sid, "somebody", idle=True)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await store.sessions.record(claim, Write("op", claim.state.seq, events=(broken,), release=True))
        await store.sessions.accept(NewItem(sid, "d2", "owner", PUBLIC, SessionMessage("and now"), str(home), "owner"))
        assert "You said: hello" in await owner.say("hello")

        async def failures() -> list[JsonObject]:
            rows = [record async for record in owner.app.chains.records("audit")]
            return [row.body for row in rows if row.kind == "quarantined"]

        async def told() -> bool:
            return bool(await failures())

        await eventually(told)
        # What kind of error and where, and nothing of what it says: that may be anything.
        told_of = (await failures())[0]
        assert told_of == {"session": sid, "doing": "work", "error": error, "where": told_of["where"]}
        assert "You said: again" in await owner.say("again")


async def test_a_pool_that_runs_many_turns_leaves_slots_to_all_others(tmp_path: Path) -> None:
    """One person's PUBLIC sessions run no more at once than is left; those above, and others', wait for none."""
    let_go, most = asyncio.Event(), PARALLEL // 2

    async def wait(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> None:
        await let_go.wait()

    people = {
        "owner": principal("console:owner"),
        "ann": principal("console:ann", role="member"),
    }
    probe = Probe(does=wait)
    async with running(tmp_path, policy(principals=people), parts=parts(probe)) as owner:
        high = Person(owner.app, owner.output, Address("console", "high"))
        await high.say("hello")
        await high.say("/taint raise CONFIDENTIAL")
        many = [Person(owner.app, owner.output, Address("console", f"chat{n}")) for n in range(most + 4)]
        for person in many:
            await person.send(bang("probe"))

        async def ran(count: int) -> None:
            async def reached() -> bool:
                return len(probe.ran) == count

            await eventually(reached)

        await ran(most)
        await asyncio.sleep(0.5)
        assert len(probe.ran) == most
        ann = Person(owner.app, owner.output, Address("console", "ann"), "console:ann")
        for person, count in ((high, most + 1), (ann, most + 2)):
            await person.send(bang("probe"))
            await ran(count)
        let_go.set()
        for person in many:
            await person.settled()
        assert len(probe.ran) == most + 6
