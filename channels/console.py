"""The console: a person at a keyboard, or a pipe in its place.

A text is shown indented, so that a model's text cannot stand in the place of the prompt, a status or another chat's
mark. Every character that a terminal would obey instead of showing is escaped. Reading the keyboard is the command
line's matter, not this adapter's.
"""

import asyncio
import re
import shutil
import unicodedata
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from channels.messages import FROM_OUTSIDE, Address, Outbound, OutboundKind, Signal
from channels.port import AmbiguousSendError, Audience, ChannelError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NAME: Final = "console"
OWNER: Final = "owner"
"""The chat, and the account, of the owner of this installation."""

QUIT: Final = "/quit"
"""The one command that the console itself carries out."""

REPEATED: Final = "(may have been shown before)"

_INDENT: Final = "  "
_ERASE_LINE: Final = "\r\x1b[K"
_SHOWN: Final = frozenset("\n\t\u200c\u200d")
_OBEYED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_STATUS: Final = MappingProxyType({Signal.WORKING: "working", Signal.READING: "reading", Signal.WRITING: "writing"})
_STYLES: Final = MappingProxyType(
    {OutboundKind.NOTICE: "cyan", OutboundKind.OFFER: "bold yellow", OutboundKind.QUESTION: "bold yellow"}
)
_PLAIN: Final = re.compile(r"[\n\t\x20-\x7e]*\Z")


class Screen(Protocol):
    """A terminal with an editor on its last lines, which draws these itself."""

    def above(self, text: str) -> None:
        """Write a text, with its line end, above the editor."""
        ...

    def status(self, text: str) -> None:
        """Replace the status line; an empty text takes it away."""
        ...


@dataclass(frozen=True, slots=True)
class TerminalLook:
    """How a terminal is written to: with `colour`, without any control sequence where it is `plain`.

    A `screen` draws prompt and status in the place of the console.
    """

    colour: bool = True
    plain: bool = False
    screen: Screen | None = None


LOOK: Final = TerminalLook()
"""A terminal that obeys control sequences."""


class Console:
    """Shows outbound texts on one output stream.

    `person` is the chat of the user at the keyboard: the owner, or another user's name. `terminal` tells that the
    stream is one, with status line and colours. `changed` is set at every text shown and every signal, for a caller
    that waits for one. `before` runs before a text is shown, so that the lines about its cause stand above it. `prompt`
    gives the line to show again after a text arrived while a person was typing.
    """

    name = NAME
    marks_repeats = True
    marks_untrusted = True

    def __init__(
        self, output: TextIO, *, person: str = OWNER, terminal: bool = False, look: TerminalLook = LOOK
    ) -> None:
        self.changed = asyncio.Event()
        self.before: Callable[[], Awaitable[None]] | None = None
        self.prompt: Callable[[], str] | None = None
        self._output = output
        self._person = person
        self._terminal = terminal
        self.look = look
        self._status = ""
        self._writing = asyncio.Lock()

    async def send(self, outbound: Outbound) -> str:
        """Show a text, for ever.

        Raises:
            ChannelError: it cannot be shown here.
            AmbiguousSendError: the stream broke while it was shown.
        """
        if outbound.replaces:
            raise ChannelError("a console cannot change a shown message")
        chat = outbound.address.chat
        if outbound.address != Address(NAME, chat) or (self._person not in {OWNER, chat}):
            raise ChannelError("this console has another address")
        if self.before is not None:
            await self.before()
        await self.show(self._rendered(outbound), _STYLES.get(outbound.kind, ""))
        return ""

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show the status on a terminal's last line; a pipe shows nothing."""
        if address.chat == self._person and signal is not Signal.STILL:
            await self.status(_STATUS.get(signal, ""))
        self.changed.set()

    @property
    def previews(self) -> bool:
        """A terminal's last line can; a pipe keeps everything that was ever written to it."""
        return self._terminal and not self.look.plain

    async def preview(self, outbound: Outbound) -> None:
        """Show the end of a text in the status line, in the place of the status."""
        if outbound.address == Address(NAME, self._person):
            line = " ".join(visible(outbound.text).split())
            # Non-ASCII characters may take two columns, and a line that wraps could not be erased.
            columns = shutil.get_terminal_size().columns - len(_INDENT) - 2
            width = max(columns if line.isascii() else columns // 2, 1)
            await self.status(f"{_INDENT}{line if len(line) <= width else f'…{line[-width:]}'}" if line else "")

    async def audience(self, address: Address) -> Audience:
        """Return the readers: one account for each chat, always complete."""
        return Audience.of(f"{NAME}:{address.chat}")

    async def show(self, text: str, style: str = "") -> None:
        """Show lines of the console's own, unchanged; they have no control characters but line ends.

        Raises:
            ChannelError: the stream is closed.
            AmbiguousSendError: it broke on the way.
        """
        async with self._writing:
            again = self.prompt() if self.prompt is not None and self._terminal else ""
            await self._write_lines(f"{self._styled(text, style)}\n", again)
        self.changed.set()

    async def status(self, text: str) -> None:
        """Replace the status line, on a terminal.

        Raises ChannelError or AmbiguousSendError: as `show`.
        """
        if not self.previews or text == self._status:
            return
        async with self._writing:
            self._status = text
            if self.look.screen is not None:
                self.look.screen.status(text)
            else:
                await self._write(f"{_ERASE_LINE}{text}")

    async def _write_lines(self, shown: str, again: str) -> None:
        """Write lines, and the prompt and the status `again` after them where no screen draws these."""
        if self.look.screen is not None:
            self.look.screen.above(self._encoded(shown))
        elif self.look.plain and self._terminal:
            # The cursor stands behind the prompt, and nothing can erase that.
            await self._write(f"\n{shown}{again}" if again else shown)
        else:
            await self._write(f"{_ERASE_LINE if self._terminal else ''}{shown}{again}{self._status}")

    def _rendered(self, outbound: Outbound) -> str:
        chat = outbound.address.chat
        mark = "" if chat == self._person else f"→ {_word(chat)}: "
        buttons = outbound.buttons if outbound.kind is OutboundKind.QUESTION else ()
        typed = (f"{button.label}: `{button.command}`" for button in buttons)
        outside = (FROM_OUTSIDE,) if outbound.untrusted else ()
        body = visible("\n".join((*outside, outbound.text.rstrip("\n"), *typed))).replace("\n", f"\n{_INDENT}")
        return f"{mark or _INDENT}{body}{f' {REPEATED}' if outbound.repeated else ''}"

    def _styled(self, text: str, style: str) -> str:
        if not style or not self._terminal or self.look.plain or not self.look.colour:
            return text
        from rich.console import Console as Rich  # noqa: PLC0415 - 60 ms, and only a terminal needs it

        rich = Rich(force_terminal=True, no_color=False, width=10_000)
        with rich.capture() as capture:
            rich.print(text, style=style, markup=False, highlight=False, emoji=False, end="", soft_wrap=True)
        return capture.get()

    async def _write(self, text: str) -> None:
        try:
            await asyncio.to_thread(self._write_now, text)
        except ValueError:
            raise ChannelError("the console is closed") from None
        except OSError:
            # Part of it may have been read before the stream broke.
            raise AmbiguousSendError("the console's output broke") from None

    def _write_now(self, text: str) -> None:
        self._output.write(self._encoded(text))
        self._output.flush()

    def _encoded(self, text: str) -> str:
        """Return a text as a terminal of another encoding can show it: with escapes for the rest."""
        encoding = self._output.encoding or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)


def visible(text: str) -> str:
    r"""Return a text with every character that a terminal would obey written as `\x1b` or `\u202e`.

    Line ends and tabs stay, as do the joiners that scripts and emoji need.
    """
    if _PLAIN.match(text):
        return text
    return "".join(
        char if char in _SHOWN or unicodedata.category(char) not in _OBEYED else _escape(char) for char in text
    )


def _word(text: str) -> str:
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:  # noqa: PLR2004 - two hexadecimal digits hold it
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits hold it
