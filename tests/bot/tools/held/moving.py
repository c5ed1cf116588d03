"""A mailbox with calls that others notice, such as moving a mail. Its operator bounds which mail, and not where to."""

import sys
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from tests.bot.kit import policy
from tests.bot.mailbox import ID, LABELLED, LISTED, TOOLS, Mailbox

if TYPE_CHECKING:
    from collections.abc import Mapping

ONE: Final[dict[str, JsonValue]] = {**ID, "role": "identifier"}

MOVES: Final[dict[str, JsonValue]] = {
    **TOOLS,
    "move": {
        "description": "Move a mail.",
        "effect": "write",
        "arguments": {
            "id": ONE,
            "folder": {"type": "string", "role": "path"},
            "note": {"type": "string", "role": "content", "optional": True},
        },
    },
    "tag": {
        "description": "Tag mails.",
        "effect": "write",
        "arguments": {"ids": {"type": "array", "items": ONE}, "tag": {"type": "string", "role": "content"}},
    },
    "thread": {
        "description": "List the mails of the thread of a mail.",
        "effect": "read",
        "consequential": False,
        "arguments": {"id": ID},
        "output": LISTED,
    },
    "copy": {
        "description": "Copy all mails.",
        "effect": "write",
        "arguments": {"folder": {"type": "string", "role": "path"}, "words": {"type": "string", "role": "content"}},
        "output": LISTED,
    },
    "open": {"description": "Open a mail, which counts it as read.", "effect": "read", "arguments": {"id": ONE}},
}

BOUNDED: Final[dict[str, object]] = {
    "mail__move": {"bounds": {"identifier": ["mail-*", "mail-unheard"]}},
    "mail__tag": {"bounds": {"identifier": ["mail-*", "mail-unheard"]}},
    "mail__open": {"bounds": {"identifier": ["mail-*", "mail-unheard"]}},
}


def moving(*mails: dict[str, JsonValue]) -> Mailbox:
    """Return a mailbox with these mails."""
    return Mailbox(*mails, described=MOVES)


def config(*, limits: "Mapping[str, object] | None" = None, **sections: object) -> str:
    """Return a configuration with the mailbox and its bounds, and further limits and sections of the policy."""
    served = {"mail": {"command": sys.executable, "tools": dict(MOVES)}}
    blocks = {"mcp_servers": served, "limits": dict(limits or {})}
    return policy(blocks=blocks, **{"mcp_servers": LABELLED, "tools": BOUNDED, **sections})
