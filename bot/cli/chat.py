"""`lockgate chat` on a pipe, or at a terminal without control sequences, and the conversation that all consoles share.

A line is sent, its turn is waited for, then comes the next: on a pipe always, at a terminal as far as the
person waits. A command line's own way in is the router's, like every channel's.
"""

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TextIO

from bot.app.first_run import seed
from bot.cli import identity
from bot.cli.run import reloading
from bot.cli.terminal.greeting import greeting, prompt
from bot.cli.terminal.lines import BadLine, LineReader, Lines
from bot.cli.terminal.view import ConsoleView
from bot.config.model import Config
from bot.core.logs import LogLevel, Write
from bot.operations.approval_answers import CONVERSATION, UNTIL
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.deliveries import DeliveryState
from bot.sessions.models import SessionState
from channels.console import QUIT, Console, TerminalLook
from channels.messages import Inbound
from policy.labels import PUBLIC

if TYPE_CHECKING:
    from bot.app.app import App

SECOND: Final = "Another console is open here: each answer appears at one of them alone. Close the other one."
OPEN: Final = "console"
"""The file of the data directory that an open console locks."""

_ERASE: Final = "\r\x1b[K"
_POLL_SECONDS: Final = 0.25
_UNSAID: Final = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})
_WORDS: Final = MappingProxyType({"yes": "/approve", "no": "/deny"})
NOTHING: Final = "nothing is running, /quit leaves"
_ASKS: Final = "· the agent waits for your answer: type it, `/stop` ends it"
_WAITS: Final = "· a question waits: `yes` or `no` answers it, `/stop` ends it"
_RESTS: Final = "· this conversation rests: `/resume` lets it go on"
_BEHIND: Final = MappingProxyType(
    {
        _ASKS: "· this waits behind the agent's question: `/questions` shows it, `/stop` ends it",
        _WAITS: "· this waits behind a question: `yes` or `no` answers it, `/approvals` shows it, `/stop` ends it",
    }
)
"""The notes on waiting messages, by the thing that they wait behind."""


async def chat(config: Config, level: LogLevel | None = None) -> None:
    """Run the console until its input ends or `/quit`. `level` is the log level of the command line.

    Raises OperatorError: the data directory or the store cannot be used.
    """
    await asyncio.to_thread(seed, config.data_dir, examples=config.files.bucket is None)
    who = await asyncio.to_thread(identity.person, config.data_dir)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    # Control sequences mean nothing to a terminal that is called so.
    look = TerminalLook(colour=not os.environ.get("NO_COLOR"), plain=os.environ.get("TERM", "") in {"", "dumb"})
    console = Console(sys.stdout, person=who, terminal=terminal, look=look)
    lines = LineReader(sys.stdin.buffer, config.limits.message_characters)
    erase = "\n" if look.plain else _ERASE
    if terminal:
        _write(sys.stdout, f"{greeting(config.source)}\n{prompt(None)}")
        lines.ask()

    def beside(text: str) -> None:
        again = console.prompt() if console.prompt is not None else ""
        _write(sys.stderr, f"{erase}{text}{again}")

    with _opened(config.data_dir) as first:
        async with serving(config, level, console, beside if terminal else None) as app:
            if not first:
                (beside if terminal else partial(_write, sys.stderr))(f"{SECOND}\n")
            sid = await session(app, who)
            await ConsoleChat(app, console, lines, who, sid=sid, terminal=terminal).run()


@contextmanager
def _opened(data_dir: Path) -> Generator[bool]:
    """Open a console of a data directory, and yield whether it is the only one; the kernel drops a dead one's lock."""
    descriptor = os.open(data_dir / OPEN, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@asynccontextmanager
async def serving(
    config: Config, level: LogLevel | None, console: Console, beside: Write | None
) -> AsyncGenerator["App"]:
    """Open the application for a console and serve it. `beside` writes the log, None to standard error."""
    # The next import loads the store's and the tools' libraries; the prompt is there already.
    from bot.app.opening import open_app
    from bot.cli.log import logged

    with logged(config, level, beside):
        async with open_app(config, [console]) as app, asyncio.TaskGroup() as tasks:

            async def tell(line: str) -> None:
                await console.show(line, "dim")

            behind = [tasks.create_task(app.serve(tell)), tasks.create_task(reloading(app, tell))]
            yield app
            for task in behind:
                task.cancel()


async def session(app: "App", who: str) -> str:
    """Return the session of a person at the console; the configuration may have used another name for them before."""
    known, address = app.gate.document.principal(identity.account(who)), identity.address(who)
    return await (app.session_ids.first(address) if known is None else app.session_ids.of(address, known[0]))


class ConsoleChat:
    """One person's conversation at this console."""

    def __init__(self, app: "App", console: Console, lines: Lines, who: str, *, sid: str, terminal: bool) -> None:
        self._app = app
        self._console = console
        self._source = lines
        self._who = who
        self._address = identity.address(who)
        self._sid = sid
        self._terminal = terminal
        self._view = ConsoleView(
            app.store.sessions, self._sid, self._show, frozenset(tool.name for tool in app.gate.tools)
        )
        self._following = asyncio.Lock()
        self._stops = asyncio.Event()
        self._sent = 0
        self._run = app.ids.op()

    async def run(self) -> None:
        """Read and send until the input ends."""
        destination = await self._app.gate.readers.destination(self._address)
        self._clearance = destination.clearance or PUBLIC
        with self._interrupts():
            await self._view.open(self._clearance)
            self._console.before = self._follow
            if not self._terminal:
                await self._settled()
            if how := await self._how():
                await self._say("/approvals" if how == _WAITS else "/questions")
                if self._terminal:
                    await self._show(how)
            await self._converse()

    async def _converse(self) -> None:
        """Take one line after the other, each after all answers to the one before."""
        if self._terminal:
            await self._show_prompt()
        while True:
            self._console.prompt = self._prompt
            line = await self._next()
            self._console.prompt = None
            if line is None or (isinstance(line, str) and line.strip() == QUIT):
                break
            await self._take(line)
            if self._terminal:
                await self._show_prompt()
        if self._terminal and line is None:
            # Ctrl-D left the cursor behind the prompt.
            await self._console.show("")

    async def _take(self, line: str | BadLine) -> None:
        """Send a line and wait until all that follows from it was said."""
        if isinstance(line, BadLine):
            await self._console.show(line.reason)
            return
        if not line.strip():
            return
        await self._say(await self._meant(line))
        if hint := await self._hint(await self._settled()):
            await self._show(hint)

    async def _hint(self, state: SessionState | None) -> str:
        """Tell the person here, in a line, that a session waits for people; empty if it does not."""
        if state is not None and state.rests and state.waiting_items:
            return _RESTS
        if state is not None and state.waiting_items and state.turn is not None:
            how = await self._how()
            return _BEHIND[how] if how else ""
        if self._terminal and state is not None and await self._waits_for_people(state):
            return await self._how()
        return ""

    async def _say(self, text: str) -> None:
        """Send a text as the person's. After an end of the conversation this one goes on in another session."""
        self._sent += 1
        key = f"{self._run}-{self._sent}"
        receipt = await self._app.router.receive(Inbound(self._address, identity.account(self._who), text, key))
        if receipt.sid != self._sid:
            self._sid = receipt.sid
            await self._view.turn_to(self._sid)

    async def _meant(self, line: str) -> str:
        """Return the command that `yes` or `no` stands for while a question waits here; any other line as it is.

        `yes` may be followed by how long it counts: `yes conversation`, `yes until 2h`.
        """
        word, *longer = line.strip().split()[:5] or [""]
        command = _WORDS.get(word.lower())
        if longer and not (word.lower() == "yes" and longer[0] in {CONVERSATION, UNTIL}):
            return line
        name = await self._question() if command else ""
        return " ".join((command, name, *longer)) if command and name else line

    async def _question(self) -> str:
        """Return the id of the approval that this conversation waits for, empty if there is none."""
        return next((one.asked_in for one in await self._pending() if not one.is_question), "")

    async def _pending(self) -> list[Approval]:
        """Return all open questions of this conversation: approvals, and questions of the agent."""
        known = await self._app.store.approvals.of(self._sid)
        return [one for one in known if one.state is ApprovalState.PENDING]

    async def _how(self) -> str:
        """Return how to answer the open questions of this conversation, empty if none of them may be known here."""
        if not any(one.label.flows_to(self._clearance) for one in await self._pending()):
            return ""
        return _WAITS if await self._question() else _ASKS

    async def _settled(self) -> SessionState | None:
        """Wait until the session has nothing to do but to wait for a person, stopping it when asked to.

        Returns its record then.
        """
        while not await self._quiet(state := await self._view.refresh()):
            self._console.changed.clear()
            if self._stops.is_set():
                self._stops.clear()
                await self._say("/stop")
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._console.changed.wait()
            except TimeoutError:
                await self._follow()
        return state

    async def _quiet(self, state: SessionState | None) -> bool:
        if state is None or self._app.reloader.behind:
            return True
        # A message sent meanwhile waits behind a question, and its answer has yet to be typed, or `/resume` has.
        held = state.rests or await self._waits_for_people(state)
        if not held and (state.waiting_items or state.turn is not None):
            return False
        deliveries = await self._app.store.outbox.deliveries(self._sid)
        if not self._terminal and await self._app.spawner.working(state.principal, self._sid):
            # On a pipe no person comes back later for the result of a background task, only for its questions.
            return False
        serves = self._app.outbox.serves
        return not any(delivery.state in _UNSAID and serves(delivery.address) for delivery in deliveries)

    async def _waits_for_people(self, state: SessionState) -> bool:
        if state.turn is None or not state.turn.suspended:
            return False
        return bool(await self._pending())

    async def _follow(self) -> None:
        async with self._following:
            await self._view.follow(self._clearance)

    async def _show(self, text: str) -> None:
        await self._console.show(text, "dim")

    async def _next(self) -> "str | BadLine | None":
        """Wait for a line; Ctrl-C while nothing runs begins a fresh prompt."""
        async with asyncio.TaskGroup() as tasks:
            line = tasks.create_task(self._source.next())
            while not line.done():
                stop = tasks.create_task(self._stops.wait())
                await asyncio.wait({line, stop}, return_when=asyncio.FIRST_COMPLETED)
                if self._stops.is_set():
                    self._stops.clear()
                    await self._show(await self._how() or NOTHING)
                stop.cancel()
        return line.result()

    async def _show_prompt(self) -> None:
        await self._view.refresh()
        await asyncio.to_thread(_write, sys.stdout, f"{'' if self._console.look.plain else _ERASE}{self._prompt()}")

    def _prompt(self) -> str:
        return prompt(self._view.told(self._clearance))

    @contextmanager
    def _interrupts(self) -> Generator[None]:
        """At a terminal, let Ctrl-C stop the turn instead of the program."""
        if not self._terminal:
            yield
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _interrupt(self) -> None:
        self._stops.set()
        self._console.changed.set()


def _write(output: TextIO, text: str) -> None:
    output.write(text)
    output.flush()
