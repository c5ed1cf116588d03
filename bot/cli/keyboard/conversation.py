"""One person's conversation at an editor: each line is sent when it is typed, also while a turn runs.

So `/status` and `/stop` are answered during work. A message that is sent meanwhile waits as in any chat.
"""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.app.first_run import seed
from bot.cli import identity
from bot.cli.chat import NOTHING, ConsoleChat, serving, session
from bot.cli.groups.options import config_at
from bot.cli.keyboard.editor import Editor, Entered
from bot.cli.keyboard.history import LineHistory, TypedLine
from bot.cli.log import scrubbing
from bot.cli.terminal.lines import BadLine
from bot.core.errors import LockgateError
from bot.core.logs import LogLevel, Scrub
from bot.sessions.models import SessionState
from channels.console import QUIT, Console, TerminalLook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.app.app import App
    from bot.cli.keyboard.editor import Suggested

_ANNOUNCED: Final = 1
"""Seconds after which work is shown: shorter work is not announced."""

_ANSWERS: Final = frozenset({"/answer"})
"""Commands whose arguments are not kept, in lower case: a command is found in any case."""


async def converse(
    named: Path | None, level: LogLevel | None, editor: Editor, history: LineHistory, *, look: TerminalLook
) -> None:
    """Load the configuration, open the application and talk until the input ends.

    `named` is the configuration's file, as in `bot.config.load.load_config`, and `level` the log level of the command
    line. Raises OperatorError: the configuration, the data directory or the store cannot be used.
    """
    # In threads, so that the keyboard answers meanwhile.
    config = await asyncio.to_thread(config_at, named)
    await asyncio.to_thread(seed, config.data_dir, examples=config.files.bucket is None)
    who = await asyncio.to_thread(identity.person, config.data_dir)
    console = Console(sys.stdout, person=who, terminal=True, look=look)
    await asyncio.to_thread(__import__, "bot.app.opening")
    async with serving(config, level, console, editor.beside) as app:
        kept = Kept(history, await asyncio.to_thread(scrubbing, config))
        sid, longest = await session(app, who), config.limits.message_characters
        await LiveChat(app, console, editor, who, sid=sid, longest=longest, kept=kept).run()


class Kept:
    """Decides which lines are kept in the history."""

    def __init__(self, history: LineHistory, scrub: Scrub) -> None:
        self._history = history
        self._scrub = scrub

    async def add(self, line: TypedLine) -> None:
        """Keep a line that holds no secret."""
        if await asyncio.to_thread(self._scrub, line.text) == line.text:
            await asyncio.to_thread(self._history.add, line)

    @property
    def sessions(self) -> frozenset[str]:
        """The sessions that lines are kept of."""
        return frozenset(line.sid for line in self._history.lines)

    async def forget_others(self, generations: dict[str, int]) -> frozenset[str]:
        """Forget the lines of every conversation but of these sessions in these generations; return their texts."""
        return await asyncio.to_thread(self._history.keep, lambda line: generations.get(line.sid) == line.generation)


class LiveChat(ConsoleChat):
    """One person's conversation at an editor, in lines of at most `longest` characters."""

    def __init__(  # noqa: PLR0913 - the parts of one conversation
        self, app: "App", console: Console, editor: Editor, who: str, *, sid: str, longest: int, kept: Kept
    ) -> None:
        super().__init__(app, console, Unread(), who, sid=sid, terminal=True)
        self._editor = editor
        self._longest = longest
        self._kept = kept
        self._hinted = ""
        self._activity = ""
        self._since: float | None = None

    async def _converse(self) -> None:
        await self._forget()
        self._editor.prompt = self._prompt
        self._editor.interrupt = self._interrupt
        self._editor.busy = lambda: self._since is not None
        self._editor.suggest = self._suggested
        self._editor.redraw()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            while (line := await self._editor.next(self._longest)) is not None:
                if isinstance(line, BadLine):
                    await self._console.show(line.reason)
                elif line.text.strip() == QUIT and not line.pasted:
                    break
                elif line.text.strip():
                    await self._enter(line)
            watching.cancel()

    async def _enter(self, line: Entered) -> None:
        """Send a line, and keep it in the history if it may be kept."""
        asked = await self._asked()
        command = line.text.startswith("/")
        # Asked once: a question that comes meanwhile is not answered by a paste.
        meant = await self._meant(line.text)
        if line.pasted and (command or meant != line.text):
            # A paste is a message: with a space before it, it is no command, and no word that answers a question.
            await self._say(f" {line.text}")
            return self._watched()
        await self._say(meant)
        self._watched()
        answer = (asked and not command) or line.text.split(maxsplit=1)[0].lower() in _ANSWERS
        if not answer and not line.pasted:
            state = await self._app.store.sessions.state(self._sid)
            await self._kept.add(TypedLine(self._sid, 0 if state is None else state.generation, line.text))
        if command:
            # It may have deleted another conversation.
            await self._forget()
        return None

    async def _asked(self) -> bool:
        """Say whether an agent waits for an answer of this person's: any of theirs, as it may be answered here."""
        known = self._app.gate.document.principal(identity.account(self._who))
        questions = () if known is None else await self._app.question_answers.of(known[0])
        return any(one.open for one in questions) or any(one.is_question for one in await self._pending())

    def _watched(self) -> None:
        """Look at the session again after a line, and repeat the hint if it still waits."""
        self._hinted = ""
        self._console.changed.set()

    async def _watch(self) -> None:
        """Follow the session, show what it waits for, and carry out Ctrl-C."""
        generation = None
        while True:
            self._console.changed.clear()
            state = await self._settled()
            await self._follow()
            self._editor.redraw()
            if generation != (generation := None if state is None else (state.sid, state.generation)):
                await self._forget()
            hint = await self._hint(state)
            if hint and hint != self._hinted:
                self._hinted = hint
                await self._show(hint)
            if self._stops.is_set():
                self._stops.clear()
                await self._show(await self._how() or NOTHING)
            await self._console.changed.wait()

    async def _quiet(self, state: SessionState | None) -> bool:
        quiet = await super()._quiet(state)
        now = self._app.clock.monotonic()
        activity = self._view.running or "working"
        if quiet:
            self._since = None
        elif self._since is None or activity != self._activity:
            self._since, self._activity = now, activity
        seconds = 0 if self._since is None else int(now - self._since)
        self._editor.progress(f"· {activity}, {seconds} s" if seconds >= _ANNOUNCED else "")
        return quiet

    async def _forget(self) -> None:
        """Forget the lines of conversations that were reset or deleted."""
        found = {sid: await self._app.store.sessions.state(sid) for sid in self._kept.sessions | {self._sid}}
        generations = {sid: 0 if state is None else state.generation for sid, state in found.items()}
        self._editor.forget(await self._kept.forget_others(generations))

    async def _suggested(self, text: str) -> "Sequence[Suggested]":
        try:
            return await self._app.suggestions.of(identity.account(self._who), self._address, self._sid, text)
        except LockgateError:
            return ()


class Unread:
    """The lines of a conversation that reads none by itself."""

    async def next(self) -> None:
        """Return that there are none."""
