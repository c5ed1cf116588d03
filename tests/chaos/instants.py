"""Workers killed at chosen requests while they spawn, recap or take in more.

Another one heals, and all that is left is looked at.
"""

import asyncio
import io
import json
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.agent.models import toolset
from bot.agent.window import estimated
from bot.app.app import App
from bot.app.opening import open_app
from bot.audit.chain import Intact
from bot.core.errors import BusyError
from bot.delegation.structured_result import FAILED
from bot.sessions.approvals import ApprovalState
from bot.sessions.background.delegation import SESSION
from bot.sessions.deliveries import RISEN, DeliveryState
from bot.sessions.inbox import ItemStatus, QueueMode
from bot.sessions.log.event_types import (
    AgentMessage,
    ItemHeld,
    SessionSummary,
    ToolOutcome,
    ToolResult,
    UserMessage,
)
from bot.sessions.log.events import Event, EventType
from bot.sessions.models import SessionState, Status
from bot.store.records import codec
from bot.store.schema import STATES, TAKEN_TIMERS, TIMERS, sid_of
from bot.store.scripts.loader import Script, load_scripts
from bot.tools.background.runs import RunTool
from channels.console import Console
from channels.messages import Address, Inbound
from policy.labels import PUBLIC, join_all
from tests.bot.kit import bang
from tests.chaos.tap import Tap, Trap, tapped
from tests.chaos.worker import SETTINGS, parts, settings, write_settings
from tests.events import bodies, body_of
from tests.store.world import command, end_lease, end_sends, kill, state_field

READS = bang("read_file", path="confidential/pipeline.md")

LONG = "y" * 8_000
"""Two messages of this length do not fit into `small_window`."""

_ROOT = Path(__file__).parents[2]
_HEALED_SECONDS = 30.0
_SCRIPTS = load_scripts()


def at(script: Script, nth: int = 1, *, done: bool = True) -> Trap:
    """Return the instant at which a script is run for the n-th time."""
    return Trap(_SCRIPTS[script].digest.encode(), nth, done)


@dataclass
class Installation:
    """One store, and one worker after another."""

    app: App
    tap: Tap
    nursery: asyncio.subprocess.Process
    said: int = 0

    async def begin(self) -> None:
        """Start a worker, in the place of one that is gone."""
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write(b"\n")
        self.tap.victim = int(await self.nursery.stdout.readline())

    async def say(self, chat: str, text: str, trap: Trap | None = None, *behind: str) -> bool:
        """Say something, kill the worker at an instant and let another one heal it; tell whether it came to that.

        What is said right `behind` it comes while its turn runs, or a moment before.
        """
        if trap is not None:
            self.tap.arm(trap)
        for one in (text, *behind):
            self.said += 1
            await self.app.router.receive(Inbound(Address("console", chat), "console:owner", one, f"m{self.said}"))
        return await self.healed(self._quiet(chat), trap)

    async def healed(self, over: Coroutine[Any, Any, None], trap: Trap | None) -> bool:
        """Wait until something is over; if the worker is killed at the instant before, let another one heal it.

        Tells whether it was. The instant was armed before what leads to it began.
        """
        quiet = asyncio.create_task(over)
        sprung = asyncio.create_task(self.tap.sprung.wait())
        try:
            await asyncio.wait((quiet, sprung), return_when=asyncio.FIRST_COMPLETED)
            killed = trap is not None and self.tap.disarm()
            if killed:
                await sprung
                await self.let_time_pass()
                await self.begin()
            await quiet
        finally:
            for task in (quiet, sprung):
                task.cancel()
        self.tap.sprung.clear()
        return killed

    async def states(self) -> list[SessionState]:
        """Return every session of the store."""
        found = [
            await self.app.store.sessions.state(sid_of(key)) for key in await command(self.app.store, "KEYS", STATES)
        ]
        return [state for state in found if state is not None]

    async def log(self, chat: str) -> tuple[Event, ...]:
        """Return what happened in a conversation."""
        return await self.app.store.sessions.events(self.app.session_id(Address("console", chat)), limit=10_000)

    async def let_time_pass(self) -> None:
        """Let leases of the dead run out, and what they took be due again; `tests/chaos/killing.py` waits for that."""
        for timer, taken in codec.pairs(await command(self.app.store, "HGETALL", TAKEN_TIMERS)).items():
            due = taken.partition(b"/")[0]
            await command(self.app.store, "HSET", TAKEN_TIMERS, timer, due + b"/1")
            await command(self.app.store, "ZADD", TIMERS, "XX", 1, timer)
        for state in await self.states():
            if await state_field(self.app.store, state.sid, "lease_until"):
                await end_lease(self.app.store, state.sid)
            await end_sends(self.app.store, state.sid)

    async def _family(self, chat: str) -> list[SessionState]:
        """Return a conversation and what it spawned."""
        sid = self.app.session_id(Address("console", chat))
        slots = [slot for slot in await self.app.store.delegation.slots("owner") if slot.parent == sid]
        found = [await self.app.store.sessions.state(one) for one in (sid, *(slot.sid for slot in slots))]
        return [state for state in found if state is not None]

    async def _quiet(self, chat: str) -> None:
        """Wait until nothing runs, waits or is under way: the same twice, as sessions are looked at one by one."""
        before = list[SessionState]()
        async with asyncio.timeout(_HEALED_SECONDS):
            while not (_still(states := await self._family(chat)) and states == before and await self._told(states)):
                before = states
                await asyncio.sleep(0.02)

    async def _told(self, states: Iterable[SessionState]) -> bool:
        """Say whether sessions have told one another what they had to; what is in doubt is told again."""
        for state in states:
            for one in await self.app.store.outbox.deliveries(state.sid):
                if one.state is DeliveryState.AMBIGUOUS and Address.parse(one.address).channel == SESSION:
                    return False
        return True

    async def end_deadlines(self) -> None:
        """Let the time of background sessions pass; until then those that rose, and no other, keep their places."""
        # The next spawn frees the places of the dead.
        await self.app.spawner.free("owner")
        live = [slot for slot in await self.app.store.delegation.slots("owner") if slot.live]
        states = [await self.app.store.sessions.state(slot.sid) for slot in live]
        assert all(state is not None and state.risen for state in states)
        await self.app.store.delegation.free("owner", tuple(live))

    async def check(self) -> None:
        """Look at what no instant may break, in every session."""
        for state in await self.states():
            events = await self.app.store.sessions.events(state.sid, limit=10_000)
            assert [event.seq for event in events] == list(range(1, state.seq + 1))
            assert join_all((PUBLIC, *(event.label for event in events if event.admitted))) == state.taint
            assert isinstance(await self.app.chains.verify(state.sid), Intact)
            ended = Counter(event.turn for event in events if event.type is EventType.TURN_COMPLETED)
            said = Counter((event.turn, event.body.text) for event in events if isinstance(event.body, UserMessage))
            assert set(ended.values()) == set(said.values()) == {1}
            assert set(ended) == {turn for turn, _ in said}
            assert _once(bodies(events, ToolResult))
            states = [one.state for one in await self.app.store.outbox.deliveries(state.sid)]
            assert set(states) <= {DeliveryState.SENT, DeliveryState.AMBIGUOUS}
        assert isinstance(await self.app.chains.verify("audit"), Intact)
        await self.end_deadlines()


_RESTING = frozenset({Status.IDLE, Status.ARCHIVED})
"""A background session that was heard is archived."""


def _still(states: Iterable[SessionState]) -> bool:
    return all(_rests(state) and not state.waiting_items and not state.undelivered for state in states)


def _rests(state: SessionState) -> bool:
    """Say whether nothing runs: a turn that waits for a person rests, too."""
    return state.asks or (state.status in _RESTING and state.turn is None)


def _once(results: Iterable[ToolResult]) -> bool:
    return set(Counter(result.call for result in results).values()) <= {1}


@asynccontextmanager
async def installed(folder: Path, text: str = SETTINGS) -> AsyncGenerator[Installation]:
    """Open an installation with one worker, which reaches the store through a tap."""
    await asyncio.to_thread(write_settings, folder, text)
    config = await asyncio.to_thread(settings, folder)
    async with open_app(config, [Console(io.StringIO())], {}, parts()) as app:
        assert app.store.server is not None
        for script in _SCRIPTS.values():
            await command(app.store, "SCRIPT", "LOAD", script.text)
        async with tapped(folder / "tap", app.store.server.files.socket) as tap:
            nursery = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.chaos.nursery", str(folder), tap.url),
                cwd=_ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            made = Installation(app, tap, nursery)
            try:
                await made.begin()
                yield made
            finally:
                with suppress(ProcessLookupError):
                    kill(tap.victim)
                nursery.kill()
                await nursery.wait()


async def spawned(made: Installation, chat: str, trap: Trap, *, high: bool) -> bool:
    """Kill the worker in a spawn of a child that reads what is confidential; `high`: its parent has read it before.

    Returns whether the worker was killed before all was over.
    """
    if high:
        await made.say(chat, READS)
    before = {state.sid for state in await made.states()}
    killed = await made.say(chat, bang("sessions_spawn", task=READS), trap)
    new = [state for state in await made.states() if state.sid not in before and state.lineage is not None]
    assert len(new) == 1, "a call makes one child, whatever dies meanwhile"
    (child,) = new
    log = await made.log(chat)
    (told,) = [result for result in bodies(log, ToolResult) if result.tool == "sessions_spawn"]
    assert (told.outcome, child.sid in told.text) == (ToolOutcome.OK, True)
    task = next(
        event for event in await made.app.store.sessions.events(child.sid) if event.type is EventType.USER_MESSAGE
    )
    assert str(task.label) == ("CONFIDENTIAL~" if high else "PUBLIC")
    assert str(child.taint) == "CONFIDENTIAL~"
    heard = [message.text for message in bodies(log, UserMessage) if message.origin is not None]
    heard = [text for text in heard if text == RISEN or "read_file" in text]
    held = await made.app.store.delegation.held(made.app.session_id(Address("console", chat)))
    assert (len(heard), RISEN in heard, len(held)) == ((1, False, 0) if high else (1, True, 1))
    parent = await made.app.store.sessions.state(made.app.session_id(Address("console", chat)))
    assert parent is not None
    assert str(parent.taint) == ("CONFIDENTIAL~" if high else "PUBLIC")
    await made.end_deadlines()
    return killed


async def crowded(made: Installation, chat: str, trap: Trap, calls: int = 9) -> bool:
    """Kill the worker while one step spawns more children than may live."""
    task = bang("step", say="done")
    text = "\n".join(bang("sessions_spawn", task=task, title=str(n)) for n in range(calls))
    known = {state.sid for state in await made.states()}
    killed = await made.say(chat, text, trap)
    told = [result for result in bodies(await made.log(chat), ToolResult) if result.tool == "sessions_spawn"]
    new = [state for state in await made.states() if state.sid not in known and state.lineage is not None]
    accepted = [str(json.loads(one.text)["session_id"]) for one in told if one.outcome is ToolOutcome.OK]
    assert sorted(accepted) == sorted(state.sid for state in new)
    assert len(told) == calls
    assert {one.text for one in told if one.outcome is not ToolOutcome.OK} <= {str(BusyError())}
    lives = [(state.created_at, state.ended_at) for state in new]
    assert (
        max(sum(begun <= at < ended for begun, ended in lives) for at, _ in lives)
        <= made.app.config.limits.background_children
    )
    return killed


async def small_window(folder: Path) -> str:
    """Return a configuration in which two long messages do not fit into the model's window."""
    await asyncio.to_thread(write_settings, folder)
    config = await asyncio.to_thread(settings, folder)
    async with open_app(config, [Console(io.StringIO())], {}, parts()) as app:
        tokens = estimated([], toolset([tool for tool in app.gate.tools if not isinstance(tool, RunTool)])) + 5_000
    provider = {"context_tokens": tokens, "output_tokens": 100}
    return json.dumps({**json.loads(SETTINGS), "model": {"providers": {"offline": provider}}})


async def compacted(made: Installation, chat: str, trap: Trap) -> bool:
    """Kill the worker in a turn that recaps what was said before, for the context outgrew the model's window."""
    await made.say(chat, READS)
    await made.say(chat, f"first {LONG}")
    killed = await made.say(chat, f"second {LONG}", trap)
    log = await made.log(chat)
    (kept,) = [event for event in log if event.type is EventType.SUMMARY]
    recap = body_of(kept, SessionSummary)
    assert "first yyy" in recap.text, "a recap is whole or not there"
    assert str(kept.label) == "CONFIDENTIAL~"
    assert recap.upto < kept.seq
    said = [event.body.text for event in log if isinstance(event.body, AgentMessage)]
    assert [text.split()[2] for text in said[1:]] == ["first", "second"]
    assert len([event for event in log if event.type is EventType.USER_MESSAGE]) == 3, "the log is never cut"
    # What comes next is read from the recap that is there.
    await made.say(chat, "third")
    assert len([event for event in await made.log(chat) if event.type is EventType.SUMMARY]) == 1
    return killed


async def meanwhile(made: Installation, chat: str, trap: Trap, *, mode: QueueMode) -> bool:
    """Kill the worker while more is said than was asked first; every mode lets in each of it once, in order."""
    await made.say(chat, "hello")
    sid = made.app.session_id(Address("console", chat))
    await made.app.store.queue.set_mode(sid, mode, ())
    texts = (bang("step", say="done"), "one", "two")
    first = made.said + 1
    killed = await made.say(chat, texts[0], trap, *texts[1:])
    log = await made.log(chat)
    said = [event.body.text for event in log if isinstance(event.body, UserMessage)]
    assert said == ["hello", *texts]
    found = [await made.app.store.sessions.outcome(sid, f"console/m{first + n}") for n in range(3)]
    ends = {ItemStatus.CONSUMED, *([ItemStatus.CANCELLED] if mode is QueueMode.INTERRUPT else [])}
    assert {one and one.status for one in found} <= ends
    assert found[-1] is not None
    assert found[-1].status is ItemStatus.CONSUMED
    return killed


async def inquired(made: Installation, chat: str, trap: Trap, *, late: bool) -> bool:
    """Kill the worker while an agent asks its user, or `late`, while it goes on with the answer."""
    ask = bang("ask_user", question="Which day?", schema={"type": "boolean"})
    killed = await made.say(chat, ask, None if late else trap)
    sid = made.app.session_id(Address("console", chat))
    asked = [one for state, one in await made.app.store.approvals.questions("owner") if state.sid == sid]
    assert [one.state for one in asked] == [ApprovalState.PENDING], "it is asked once, whatever dies meanwhile"
    killed = await made.say(chat, "yes", trap if late else None) or killed
    log = await made.log(chat)
    (told,) = bodies(log, ToolResult)
    assert (told.outcome, json.loads(told.text)) == (ToolOutcome.OK, {"status": "answered", "answer": True})
    assert len(bodies(log, AgentMessage)) == len(bodies(log, UserMessage)) == 1
    return killed


async def summarized(made: Installation, chat: str, trap: Trap) -> bool:
    """Kill the worker in a call of `summarize`."""
    await made.say(chat, READS)
    killed = await made.say(chat, bang("summarize"), trap)
    log = await made.log(chat)
    (kept,) = [event for event in log if event.type is EventType.SUMMARY]
    (told,) = [event for event in log if isinstance(event.body, ToolResult) and event.body.tool == "summarize"]
    result = body_of(told, ToolResult)
    assert (result.outcome, result.text) == (ToolOutcome.OK, body_of(kept, SessionSummary).text)
    assert str(kept.label) == str(told.label) == "CONFIDENTIAL~"
    return killed


async def raised(made: Installation, chat: str, trap: Trap) -> bool:
    """Kill the worker in a spawn that raises its session: the task keeps the label that it was given with."""
    before = {state.sid for state in await made.states()}
    killed = await made.say(chat, bang("sessions_spawn", task="hello", up_to="CONFIDENTIAL"), trap)
    new = [state for state in await made.states() if state.sid not in before and state.lineage is not None]
    assert [str(child.creation) for child in new] == ["PUBLIC"]
    parent = await made.app.store.sessions.state(made.app.session_id(Address("console", chat)))
    assert parent is not None
    assert str(parent.taint) == "CONFIDENTIAL"
    await made.end_deadlines()
    return killed


async def inspected(made: Installation, chat: str, trap: Trap) -> bool:
    """Kill the worker in an inspection: its answer arrives once, with one charge of bits."""
    await made.say(chat, bang("read_file", path="confidential/pipeline.md", _hold=True))
    (held,) = bodies(await made.log(chat), ItemHeld)
    asked = bang(
        "inspect", refs=[held.ref], question="Which?", returns={"found": {"type": "boolean"}}, up_to="CONFIDENTIAL"
    )
    killed = await made.say(chat, asked, trap)
    (told,) = [result for result in bodies(await made.log(chat), ToolResult) if result.tool == "inspect"]
    assert (told.outcome, told.text) == (ToolOutcome.OK, FAILED)
    assert told.endorsed is not None
    asking = await made.app.store.sessions.state(made.app.session_id(Address("console", chat)))
    assert asking is not None
    assert str(asking.taint) == "CONFIDENTIAL"
    return killed
