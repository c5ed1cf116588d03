"""Kill processes at random instants while turns run, let a fresh one heal what they left, and look at all of it."""

import asyncio
import io
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bot.app.app import App
from bot.app.opening import open_app
from bot.audit.chain import Intact
from bot.core.errors import StoreError
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus, QueueMode
from bot.sessions.log.event_types import AgentMessage, ToolCall, ToolOutcome, ToolResult, UserMessage
from bot.sessions.log.events import Event, EventType
from bot.sessions.models import SessionState, Status
from channels.console import REPEATED, Console
from channels.messages import Inbound
from policy.labels import PUBLIC, join_all, parse
from tests.chaos.worker import parts, settings, write_settings
from tests.events import bodies
from tests.harness import HOME
from tests.store.world import end_sends, kill, pid_of, statuses

_ROOT = Path(__file__).parents[2]
_LABELS = ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL~")
_HEALED_SECONDS = 60.0
_OPEN = frozenset({ItemStatus.WAITING, ItemStatus.TAKEN})
_UNSAID = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})


@dataclass
class Chaos:
    """One installation being killed; `sent` is how many messages were accepted, `kills` what was killed."""

    folder: Path
    random: Random
    sent: int = 0
    kills: Counter[str] = field(default_factory=Counter[str])
    _worker: asyncio.subprocess.Process | None = None

    async def run(self, rounds: int) -> None:
        """Let it be killed that many times, heal, and check."""
        await asyncio.to_thread(write_settings, self.folder)
        config = await asyncio.to_thread(settings, self.folder)
        try:
            async with open_app(config, [Console(io.StringIO())], {}, parts()) as app:
                for _ in range(rounds):
                    await self._start()
                    await self._feed(app, self.random.randint(1, 3))
                    await asyncio.sleep(self.random.uniform(0.5, 2.5))
                    await self._kill(app)
                await self._end()
                await end_sends(app.store, app.session_id(HOME))
                await self._start()
                await self._healed(app)
                await self._end()
                await self._check(app)
        finally:
            await self._end()

    async def _start(self) -> None:
        if self._worker is None or self._worker.returncode is not None:
            self._worker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.chaos.worker", str(self.folder), cwd=_ROOT
            )

    async def _end(self) -> None:
        if self._worker is not None:
            if self._worker.returncode is None:
                self._worker.kill()
            await self._worker.wait()
            self._worker = None

    async def _feed(self, app: App, count: int) -> None:
        for _ in range(count):
            n = self.sent
            label = self.random.choice(_LABELS)
            text = "\n".join(
                (
                    f'!step {{"say": "answer-{n};", "label": "{label}"}}',
                    f'!write_file {{"path": "workspace/{n}.md", "text": "text {n}"}}',
                    f'!step {{"say": "{n} more"}}',
                    f'!message {{"channel": "console", "recipient": "owner", "text": "message-{n};"}}',
                )
            )
            inbound = Inbound(HOME, "console:owner", text, f"message {n}")
            # A platform delivers again what was not acknowledged, as often as it takes.
            while True:
                try:
                    await app.router.receive(inbound)
                    if n == 0:
                        # Each is a turn of its own here, so that every answer tells which message it is to.
                        await app.store.queue.set_mode(app.session_id(HOME), QueueMode.QUEUE, ())
                    break
                except StoreError:
                    await asyncio.sleep(0.1)
            self.sent += 1

    async def _kill(self, app: App) -> None:
        what = self.random.choice(("worker", "worker", "store", "both"))
        self.kills[what] += 1
        if what != "store":
            await self._end()
        if what != "worker":
            kill(await asyncio.to_thread(pid_of, app.store))

    async def _healed(self, app: App) -> None:
        async with asyncio.timeout(_HEALED_SECONDS):
            while True:
                if await self._quiet(app):
                    return
                await asyncio.sleep(0.05)

    async def _quiet(self, app: App) -> bool:
        sid = app.session_id(HOME)
        try:
            state = await app.store.sessions.state(sid)
            assert state is not None
            unsaid = any(one.state in _UNSAID for one in await app.store.outbox.deliveries(sid))
        except StoreError:
            return False
        return state.status is Status.IDLE and not state.waiting_items and not unsaid

    async def _check(self, app: App) -> None:
        sid = app.session_id(HOME)
        state = await app.store.sessions.state(sid)
        assert state is not None
        events = await app.store.sessions.events(sid, limit=100_000)
        _check_log(state, events, self.sent)
        for chain in (sid, "audit"):
            assert isinstance(await app.chains.verify(chain), Intact)
        statuses = await _statuses(app, sid)
        assert len(statuses) == self.sent
        assert not _OPEN.intersection(statuses)
        ambiguous = [one.text for one in await app.store.outbox.deliveries(sid) if one.state is DeliveryState.AMBIGUOUS]
        shown = await asyncio.to_thread((self.folder / "shown").read_text, "utf-8")
        _check_shown(shown, events, "\n".join(ambiguous))
        await asyncio.to_thread(self._check_files, sid, events)

    def _check_files(self, sid: str, events: tuple[Event, ...]) -> None:
        """Every write that is said to have happened is there, whole, at its label; nothing half written is."""
        base = self.folder / "data" / "session-files" / sid / "1"
        for path in base.rglob("*.md"):
            assert path.read_text("utf-8") == f"text {path.stem}"
        results = bodies(events, ToolResult)
        written = [one for one in results if one.tool == "write_file" and one.outcome is ToolOutcome.OK]
        assert len(list(base.rglob("*.md"))) >= len(written)
        sides = [side for side in base.rglob(".labels/*") if side.suffix != ".new"]
        assert len(sides) >= len(list(base.rglob("*.md")))
        for side in sides:
            parse(side.read_text("ascii").partition("\nfrom ")[0].strip())


async def _statuses(app: App, sid: str) -> list[ItemStatus]:
    """Return where every accepted input is, oldest first."""
    return await statuses(app.store, sid)


def _check_log(state: SessionState, events: tuple[Event, ...], sent: int) -> None:
    assert [event.seq for event in events] == list(range(1, state.seq + 1))
    assert join_all((PUBLIC, *(event.label for event in events if event.admitted))) == state.taint
    said = [message.text for message in bodies(events, UserMessage)]
    order = [int(found[1]) for text in said if (found := re.search(r"answer-(\d+);", text))]
    assert order == list(range(sent)), f"not once and in order: {order}"
    ended = Counter(event.turn for event in events if event.type is EventType.TURN_COMPLETED)
    assert set(ended.values()) == {1}
    assert len(ended) == sent
    answers = Counter(event.turn for event in events if event.type is EventType.AGENT_MESSAGE)
    assert set(answers.values()) <= {1}
    results = Counter(event.body.call for event in events if isinstance(event.body, ToolResult))
    assert set(results.values()) <= {1}
    decided = {event.body.call for event in events if isinstance(event.body, ToolCall)}
    assert decided <= set(results), "a call that was decided has no result"
    given_up = {event.turn for event in events if event.type is EventType.ERROR}
    assert set(ended) - set(answers) <= given_up, "a turn ended without an answer and without an error"


def _check_shown(shown: str, events: tuple[Event, ...], ambiguous: str) -> None:
    """Every answer and message was shown once, or again with its mark, or stands as of unknown outcome."""
    plain = Counter[str]()
    for block in re.split(r"\n(?=  step: answer-|  message-)", shown):
        if REPEATED not in block:
            plain.update(set(re.findall(r"answer-\d+;|message-\d+;", block)))
    for answer in bodies(events, AgentMessage):
        (name,) = set(re.findall(r"answer-\d+;", answer.text))
        assert plain[name] <= 1, f"{name} was shown {plain[name]} times without a mark"
        assert name in shown or name in ambiguous, f"{name} was never shown"
