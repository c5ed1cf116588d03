"""What is to be said, as the messages that say it: parts, or a file under a first line, and buttons. Pure functions."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from channels.leaves import clean
from channels.message import Button, Outbound, OutboundKind
from channels.slack import limits
from channels.slack.render import Part, escaped, render

REPEATED: Final = "(may have been shown before)"
EMPTY: Final = "(nothing to show)"
FILE: Final = "answer.md"
LEFT_OUT: Final = f"(the rest is left out: this workspace does not take the file {FILE})"
"""What ends a text that was to be a file and is longer than what can be shown instead."""

ACTION: Final = "lockgate.command"
"""What the `action_id` of every button of ours begins with; its value is the command that it stands for."""

_TOLD: Final = frozenset({OutboundKind.NOTICE, OutboundKind.OFFER})
"""What holds nothing but the program's own words."""
_LONGEST: Final = limits.PARTS * limits.TEXT
"""Of the characters that can be shown as messages at all."""
_MOST: Final = 2 * limits.PARTS
"""As how many messages a text is shown, at most, whose file is refused."""
_LEAD: Final = 200
_COMMAND: Final = re.compile(r"(?<![\w/.~-])/(\w+)(?![\w/-]|\.\w)")


@dataclass(frozen=True, slots=True)
class Sheet:
    """One message: its blocks, the text that stands for them, and the text to send instead if Slack refuses them."""

    blocks: tuple[dict[str, Any], ...]
    text: str
    plain: str


@dataclass(frozen=True, slots=True)
class Letter:
    """Messages in order, buttons below the last; with `file`, the single one is what stands above it."""

    sheets: tuple[Sheet, ...]
    file: bytes = b""


def compose(outbound: Outbound, commands: Collection[str] = ()) -> Letter:
    """Return the messages; rendering a long text takes a while.

    In what the program tells, `commands` are written as they are typed on Slack, which takes what begins with a slash
    for a command of its own. What it asks is shown as it is: it may hold what others wrote.
    """
    text, mark, said, fitting = _whole(outbound, commands)
    verbatim = outbound.kind.verbatim
    rendered = render(text, links=outbound.links, verbatim=verbatim) if len(text) <= _LONGEST else None
    if rendered is None or rendered.as_file:
        lead = render(f"{mark}{_first_line(said)}", links=outbound.links, verbatim=verbatim).parts
        return Letter(_sheets(lead[:1], fitting), clean(text).encode())
    return Letter(_sheets(rendered.parts, fitting))


def spelled(outbound: Outbound, commands: Collection[str] = ()) -> Letter:
    """Return the messages of a text whose file is refused: all of it, or its beginning and that the rest is left out.

    Rendering it takes a while.
    """
    text, _, _, fitting = _whole(outbound, commands)
    begun = text[: (_MOST + 1) * limits.TEXT]
    parts = render(begun, links=outbound.links, verbatim=outbound.kind.verbatim or len(begun) > _LONGEST).parts
    if len(parts) > _MOST or begun != text:
        parts = (*parts[:_MOST], *render(LEFT_OUT, links=True).parts)
    return Letter(_sheets(parts, fitting))


def _whole(outbound: Outbound, commands: Collection[str]) -> tuple[str, str, str, list[Button]]:
    """Return the text with what is written around it, its mark, what is said, and the buttons that can be pressed."""
    fitting, others = _sorted(outbound.buttons)
    mark = f"{REPEATED}\n\n" if outbound.repeated else ""
    said = _spelled(outbound.text, commands) if outbound.kind in _TOLD else outbound.text
    return f"{mark}{said}{_typed(others)}", mark, said, fitting


def _sheets(parts: tuple[Part, ...], buttons: list[Button]) -> tuple[Sheet, ...]:
    *before, last = parts or render(EMPTY, links=True).parts
    ended = Sheet(last.blocks + _actions(buttons), last.text, last.text + escaped(_typed(buttons)))
    return (*(Sheet(part.blocks, part.text, part.text) for part in before), ended)


def _first_line(text: str) -> str:
    line = next((line for line in text[:_LONGEST].splitlines() if limits.visible(clean(line))), "")
    return line if len(line) <= _LEAD else f"{line[:_LEAD]}…"


def _sorted(buttons: tuple[Button, ...]) -> tuple[list[Button], list[Button]]:
    """Return the buttons that can be pressed, and those that have no room and are written below the text."""
    fitting, others = list[Button](), list[Button]()
    for button in buttons:
        whole = clean(button.command) == button.command and limits.visible(clean(button.label))
        room = limits.size(json.dumps(_actions([*fitting, button]), ensure_ascii=False)) <= limits.ACTIONS
        (fitting if whole and room else others).append(button)
    return fitting, others


def _actions(buttons: list[Button]) -> tuple[dict[str, Any], ...]:
    keys = [
        {
            "type": "button",
            "action_id": f"{ACTION}.{number}",
            "text": {"type": "plain_text", "text": clean(button.label)[: limits.LABEL], "emoji": False},
            "value": button.command,
        }
        for number, button in enumerate(buttons)
    ]
    return ({"type": "actions", "elements": keys},) if keys else ()


def _typed(buttons: list[Button]) -> str:
    commands = [(button.label, re.sub(r"^/", "!", button.command)) for button in buttons]
    return "".join(f"\n\n{label}: `{command}`" for label, command in commands)


def _spelled(text: str, commands: Collection[str]) -> str:
    return _COMMAND.sub(lambda found: f"!{found[1]}" if found[1] in commands else found[0], text)


CUT: Final = _sheets(render("(too long to be shown here)", links=True).parts, [])[0]
"""What stands below something that can only be begun where it is shown."""
