"""The editor on a terminal's last lines: a prompt that stays while texts arrive above it.

A paste arrives whole, as bracketed paste. A line that begins with one is a message, never a command.
"""

import asyncio
import unicodedata
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from bot.cli.keyboard.history import LineHistory
from bot.cli.terminal.greeting import prompt
from bot.cli.terminal.lines import BadLine
from channels.console import visible

ALLOWED: Final = frozenset("\t\n")
"""The control characters that a message may have."""

_STYLE: Final = Style.from_dict({"status": "ansicyan", "prompt": ""})


class Suggested(Protocol):
    """A text that may replace the last `replaced` characters, with a description."""

    @property
    def text(self) -> str:
        """The text itself."""
        ...

    @property
    def replaced(self) -> int:
        """How many characters before the cursor it replaces."""
        ...

    @property
    def about(self) -> str:
        """Its description, in a few words."""
        ...


Suggest = Callable[[str], Awaitable[Sequence[Suggested]]]
"""Returns the completions of the text before the cursor."""


@dataclass(frozen=True, slots=True)
class Entered:
    """A line, and whether it begins with a paste."""

    text: str
    pasted: bool


class Editor:
    """Reads lines; texts and a status are shown above the line being typed.

    `prompt` gives the prompt, `busy` says whether Ctrl-C has something to stop. Ctrl-C calls `interrupt` then, and
    on an empty line. `suggest` completes; before it is set nothing does. `drawn` is set once the prompt was seen.
    """

    def __init__(self, output: TextIO, history: LineHistory, *, colour: bool, term: str) -> None:
        self.prompt: Callable[[], str] = partial(prompt, None)
        self.busy: Callable[[], bool] = lambda: False
        self.interrupt: Callable[[], None] = lambda: None
        self.suggest: Suggest | None = None
        self.drawn = asyncio.Event()
        self._lines = asyncio.Queue[Entered | None]()
        self._status = ""
        self._progress = ""
        self._pasted = ""
        depth = None if colour else ColorDepth.DEPTH_1_BIT
        self._output = Vt100_Output.from_pty(output, term=term, default_color_depth=depth)
        # The answer of a terminal that is slow, or gone, would be read as if it were typed.
        self._output.enable_cpr = False
        self._session = PromptSession[str](
            self._message,
            multiline=True,
            history=_Typed(history),
            completer=_Suggestions(self),
            complete_while_typing=Condition(self._completes),
            key_bindings=self._bindings(),
            prompt_continuation="  ",
            enable_suspend=True,
            style=_STYLE,
            color_depth=depth,
            output=self._output,
        )
        self._session.default_buffer.on_text_changed += self._changed
        self._session.app.after_render += self._rendered

    async def read(self) -> None:
        """Read lines until the end of input, or until cancelled."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        while True:
            try:
                text = await self._session.prompt_async(set_exception_handler=False, handle_sigint=False)
            except EOFError:
                self._lines.put_nowait(None)
                return
            finally:
                self.drawn.set()
            self._lines.put_nowait(Entered(text, self._is_pasted(text)))
            self._pasted = ""

    async def next(self, longest: int) -> Entered | BadLine | None:
        """Return the next line, None at the end of input; one of more than `longest` characters is not taken."""
        entered = await self._lines.get()
        return None if entered is None else _checked(entered, longest)

    def above(self, text: str) -> None:
        """Write a text, with its line end, above the line being typed."""
        app = self._session.app
        if app.is_running:
            app.renderer.erase()
        self._output.write_raw(text)
        self._output.flush()
        app.invalidate()

    def beside(self, text: str) -> None:
        """Write a text as `above` does, from any thread."""
        self._loop.call_soon_threadsafe(self.above, text)

    def status(self, text: str) -> None:
        """Show the state of the session's turn; an empty text takes it away."""
        self._status = text
        self._session.app.invalidate()

    def progress(self, text: str) -> None:
        """Show the work under way in the place of the state; an empty text takes it away."""
        if text != self._progress:
            self._progress = text
            self._session.app.invalidate()

    def redraw(self) -> None:
        """Show the prompt as it is by now."""
        self._session.app.invalidate()

    def forget(self, gone: Collection[str]) -> None:
        """Take texts that are `gone` from the history out of the prompt, which read the history when it began."""
        buffer = self._session.default_buffer
        if gone:
            buffer.reset(Document() if buffer.text in gone else buffer.document)
            self.redraw()

    def _message(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        if not self._session.app.is_done:
            # A preview is indented; a state is a word, which the progress tells better.
            lines = (self._status if self._status.startswith(" ") or not self._progress else "", self._progress)
            shown.extend(("class:status", f"{line}\n") for line in lines if line)
        return [*shown, ("class:prompt", self.prompt())]

    def _rendered(self, _: Application[str]) -> None:
        self.drawn.set()

    def _is_pasted(self, text: str) -> bool:
        return bool(self._pasted) and text.lstrip().startswith(self._pasted)

    def _completes(self) -> bool:
        """Say whether a menu opens by itself: for commands, and behind a `/` of a path."""
        document = self._session.default_buffer.document
        return document.text.startswith("/") or "/" in document.get_word_before_cursor(WORD=True)

    def _changed(self, buffer: Buffer) -> None:
        if not buffer.text.strip():
            self._pasted = ""

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @bindings.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @bindings.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if self.busy() or not event.current_buffer.text:
                self.interrupt()
            else:
                event.current_buffer.reset()

        @bindings.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            buffer, text = event.current_buffer, event.data.replace("\r\n", "\n").replace("\r", "\n")
            if not buffer.document.text_before_cursor.strip():
                self._pasted = next(iter(text.split()), "")
            buffer.insert_text(text)

        return bindings


def _checked(entered: Entered, longest: int) -> Entered | BadLine:
    if len(entered.text) > longest:
        return BadLine(f"that line is longer than {longest} characters, it was not sent")
    if any(unicodedata.category(char) in {"Cc", "Cs"} and char not in ALLOWED for char in entered.text):
        return BadLine("that line holds control characters, it was not sent")
    return entered


class _Typed(History):
    """The lines that are kept; one is added when it is known to hold no secret, not when it is typed."""

    def __init__(self, kept: LineHistory) -> None:
        super().__init__()
        self._kept = kept

    async def load(self) -> AsyncGenerator[str]:
        """Yield the lines, the newest first, each once."""
        for text in dict.fromkeys(line.text for line in reversed(self._kept.lines)):
            yield text

    def append_string(self, string: str) -> None:
        """Keep nothing."""

    def load_history_strings(self) -> Iterable[str]:
        """Return nothing: `load` yields them."""
        return ()

    def store_string(self, string: str) -> None:
        """Keep nothing."""


class _Suggestions(Completer):
    """Completes with the suggestions of an editor."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor

    def get_completions(
        self,
        document: Document,  # noqa: ARG002 - the base class's signature
        complete_event: CompleteEvent,  # noqa: ARG002 - the base class's signature
    ) -> Iterable[Completion]:
        """Return nothing: suggestions are waited for."""
        return ()

    async def get_completions_async(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - the base class's signature
    ) -> AsyncGenerator[Completion]:
        """Yield the completions of the text before the cursor."""
        if self._editor.suggest is None:
            return
        for one in await self._editor.suggest(document.text_before_cursor):
            yield Completion(one.text, -one.replaced, display_meta=visible(one.about))
