"""An MCP server of the world, in the place of its connection: what it gives, and what it was made to do.

Its tools are those of the product, as an operator describes them.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from pydantic import JsonValue

from bot.config.mcp import McpServerSettings
from bot.mcp.tool import Ask, McpResult, McpTool

_DIGITS: Final = 4
"""So many digits of the secret stand in the place of `<digits>`, others each time."""


class Ledger(Protocol):
    """The secret of a run, and what was done in it."""

    secret: str
    turns: int

    def note(self, tool: str, told: str) -> None:
        """Note that a server did something."""
        ...


@dataclass(frozen=True, slots=True)
class Office:
    """A server: its tools as described, and what each `gives`, with the secret in the place of `<secret>`.

    Nobody sees what a `quiet` one is made to do.
    """

    name: str
    described: Mapping[str, JsonValue]
    gives: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    quiet: bool = False

    @property
    def block(self) -> dict[str, JsonValue]:
        """The block `mcp_servers` of a configuration; what is done is described by `tools` alone."""
        return {self.name: {"command": sys.executable, "tools": dict(self.described)}}

    def tools(self, ledger: Ledger) -> tuple[McpTool, ...]:
        """Return its tools, which note in a ledger what they do."""

        async def ask(asked: Ask) -> McpResult:
            if asked.tool not in self.gives:
                if not self.quiet:
                    ledger.note(f"{self.name}__{asked.tool}", json.dumps(dict(asked.arguments), sort_keys=True))
                return McpResult("done")
            given = self._given(self.gives[asked.tool], ledger)
            ledger.turns += 1
            return McpResult(json.dumps(given), structured=given)

        settings = McpServerSettings.model_validate({"command": sys.executable, "tools": self.described})
        return tuple(McpTool(self.name, tool, settings, ask) for tool in self.described)

    def _given(self, value: JsonValue, ledger: Ledger) -> JsonValue:
        if isinstance(value, dict):
            return {name: self._given(inner, ledger) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._given(inner, ledger) for inner in value]
        if value == "<digits>":
            digits = ledger.secret.removeprefix("digits=")
            found = digits[ledger.turns * _DIGITS :][:_DIGITS]
            return int(found) if found.isdecimal() else 0
        return value.replace("<secret>", ledger.secret) if isinstance(value, str) else value


SUBJECT: Final[dict[str, JsonValue]] = {"type": "string"}
SIZE: Final[dict[str, JsonValue]] = {"type": "integer", "bounded": {"minimum": 0, "maximum": 9999}}


def mailbox(subject: JsonValue, size: JsonValue) -> Office:
    """Return a mailbox with one mail, whose subject and size an operator describes so."""
    mail: dict[str, JsonValue] = {"id": {"type": "string", "handle": "mail"}, "subject": subject, "n": size}
    listed: JsonValue = {"type": "array", "max_items": 1, "items": {"type": "object", "fields": mail}}
    taken: dict[str, JsonValue] = {"id": {"type": "string", "handle": "mail", "role": "identifier"}}
    sent: JsonValue = {"to": {"type": "string", "role": "recipient"}, "text": {"type": "string", "role": "content"}}
    read: dict[str, JsonValue] = {"effect": "read", "consequential": False}
    return Office(
        "mail",
        {
            "find": {
                "description": "List mails.",
                **read,
                "output": {"type": "object", "fields": {"mails": listed}},
            },
            "read": {
                "description": "Read a mail.",
                **read,
                "arguments": taken,
                "output": {"type": "object", "fields": {"subject": {"type": "string"}}},
            },
            "thread": {
                "description": "List the mails of a thread.",
                **read,
                "arguments": taken,
                "output": {"type": "object", "fields": {"mails": listed}},
            },
            "delete": {"description": "Delete a mail.", "effect": "write", "arguments": taken},
            "send": {"description": "Send a mail.", "effect": "send", "arguments": sent},
            "forward": {
                "description": "Forward a mail.",
                "effect": "send",
                "arguments": {**taken, "to": {"type": "string", "role": "recipient"}},
            },
        },
        {
            "find": {"mails": [{"id": "<secret>", "subject": "<secret>", "n": "<digits>"}]},
            "thread": {"mails": [{"id": "a", "subject": "s", "n": 1}]},
            "read": {"subject": "<secret>"},
        },
    )


MAILBOX: Final = mailbox(SUBJECT, SIZE)
CONSTANT: Final = replace(
    MAILBOX, gives={**MAILBOX.gives, "find": {"mails": [{"id": "<secret>", "subject": "<secret>", "n": 5}]}}
)
"""The same, where others choose nothing that is counted."""


_MADE: Final[JsonValue] = {"id": {"type": "string", "handle": "mail", "made": True}}
_MAKES: Final[dict[str, JsonValue]] = {"effect": "write", "output": {"type": "object", "fields": _MADE}}
_ID: Final[JsonValue] = {"type": "string", "handle": "mail", "role": "identifier"}
MAKING: Final = replace(
    MAILBOX,
    described={
        **MAILBOX.described,
        "draft": {
            "description": "Write a draft.",
            **_MAKES,
            "arguments": {"text": {"type": "string", "role": "content"}},
        },
        "copy": {"description": "Copy a mail.", **_MAKES, "arguments": {"id": _ID}},
    },
    gives={**MAILBOX.gives, "draft": {"id": "draft"}, "copy": {"id": "copy"}},
)
"""The same, with drafts and copies. A copy has the words of another mail, and a draft those of its session."""

MADE_HERE: Final[JsonValue] = {
    "mail__draft": {"untrusted_content": "allow"},
    "mail__copy": {"bounds": {"identifier": ["mail-*", "mail-unheard"]}},
    "mail__forward": {"bounds": {"identifier": ["mail-made-here"]}},
}
"""The bounds of its tools: what a conversation made goes to anybody that a person named."""
