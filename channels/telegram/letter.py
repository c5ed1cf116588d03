"""What is to be said, as the messages that say it: parts, or a file with a first line, and buttons. Pure functions."""

from dataclasses import dataclass
from typing import Final

from telegram import InlineKeyboardButton, InlineKeyboardMarkup

from channels.message import Button, Outbound
from channels.telegram import limits
from channels.telegram.render import LONGEST_SOURCE, Part, render

REPEATED: Final = "(may have been shown before)"
EMPTY: Final = "(nothing to show)"
FILE: Final = "answer.md"

LEFT_OUT: Final = f"(the rest is left out: this chat does not take the file {FILE})"
"""What ends a text that was to be a file and is longer than what can be shown instead."""

_SPELLED: Final = 2 * limits.PARTS
"""As how many messages a text is shown, at most, whose file is refused."""

_DATA: Final = 64
_LABEL: Final = 64
_BUTTONS: Final = 100
_ROW: Final = 2
_LEAD: Final = 200


@dataclass(frozen=True, slots=True)
class Letter:
    """Parts in order; with `file`, the single part is what stands above it. The keyboard is for the last."""

    parts: tuple[Part, ...]
    file: bytes = b""
    keyboard: InlineKeyboardMarkup | None = None


def compose(outbound: Outbound) -> Letter:
    """Return the messages; rendering a long text takes a while."""
    text, mark, keyboard = _whole(outbound)
    verbatim = outbound.kind.verbatim
    rendering = render(text, links=outbound.links, verbatim=verbatim) if len(text) <= LONGEST_SOURCE else None
    if rendering is None or rendering.as_file:
        lead = render(f"{mark}{_first_line(outbound.text)}", links=outbound.links, verbatim=verbatim).parts
        return Letter(lead[:1] or _empty(), limits.clean(text).encode(), keyboard)
    return Letter(rendering.parts or _empty(), keyboard=keyboard)


def spelled(outbound: Outbound) -> Letter:
    """Return the messages of a text whose file is refused: all of it, or its beginning and that the rest is left out.

    Rendering it takes a while.
    """
    text, _, keyboard = _whole(outbound)
    begun = text[: (_SPELLED + 1) * limits.TEXT]
    parts = render(begun, links=outbound.links, verbatim=outbound.kind.verbatim).parts
    if len(parts) > _SPELLED or begun != text:
        parts = (*parts[:_SPELLED], Part(LEFT_OUT, (), LEFT_OUT))
    return Letter(parts, keyboard=keyboard)


def _whole(outbound: Outbound) -> tuple[str, str, InlineKeyboardMarkup | None]:
    """Return the text with what is written around it, its mark, and the buttons that can be pressed."""
    fitting = tuple(button for button in outbound.buttons if _fits(button))[:_BUTTONS]
    others = [button for button in outbound.buttons if button not in fitting]
    mark = f"{REPEATED}\n\n" if outbound.repeated else ""
    typed = "".join(f"\n\n{button.label}: `{button.command}`" for button in others)
    return f"{mark}{outbound.text}{typed}", mark, _keyboard(fitting) if fitting else None


def _empty() -> tuple[Part, ...]:
    return (Part(EMPTY, (), EMPTY),)


def _first_line(text: str) -> str:
    line = next((line for line in text[:LONGEST_SOURCE].splitlines() if limits.visible(line)), "")
    return line if len(line) <= _LEAD else f"{line[:_LEAD]}…"


def _fits(button: Button) -> bool:
    """Tell whether a button can carry its command; one that cannot is written below the text."""
    command = limits.clean(button.command)
    return command == button.command and len(command.encode()) <= _DATA and limits.visible(button.label)


def _keyboard(buttons: tuple[Button, ...]) -> InlineKeyboardMarkup:
    keys = [
        InlineKeyboardButton(limits.clean(button.label)[:_LABEL], callback_data=button.command) for button in buttons
    ]
    return InlineKeyboardMarkup([keys[place : place + _ROW] for place in range(0, len(keys), _ROW)])
