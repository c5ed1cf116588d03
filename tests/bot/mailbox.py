"""A mailbox behind an MCP server, as an operator who spares sessions its words describes it."""

import json
import re
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from bot.config.mcp import McpServerSettings
from bot.mcp.tool import REFUSED, Ask, McpResult, McpTool

if TYPE_CHECKING:
    from collections.abc import Mapping

HANDLE: Final = re.compile(r"mail-[0-9]+-[a-z2-7]{4}")

SERVER: Final = str(Path(__file__).parents[1] / "sim" / "mail_server.py")

ID: Final[dict[str, JsonValue]] = {"type": "string", "handle": "mail"}

LISTED: Final[dict[str, JsonValue]] = {
    "type": "object",
    "open": True,
    "fields": {
        "status": {"type": "string", "written_by": "server"},
        "mails": {
            "type": "array",
            "max_items": 3,
            "items": {
                "type": "object",
                "open": True,
                "fields": {
                    "id": ID,
                    "subject": {"type": "string"},
                    "size": {"type": "integer", "bounded": {"minimum": 0, "maximum": 30, "step": 10}},
                },
            },
        },
    },
}

MAIL: Final[dict[str, JsonValue]] = {
    "type": "object",
    "fields": {"subject": {"type": "string"}, "body": {"type": "string"}},
}

TOOLS: Final[dict[str, JsonValue]] = {
    "find": {"description": "List the mails.", "effect": "read", "consequential": False, "output": LISTED},
    "read": {
        "description": "Read a mail.",
        "effect": "read",
        "consequential": False,
        "arguments": {"id": ID},
        "output": MAIL,
    },
    "delete": {
        "description": "Delete a mail.",
        "effect": "write",
        "arguments": {"id": ID},
        "output": {"type": "object", "fields": {"status": {"type": "string", "written_by": "server"}}},
    },
}


def mail(name: str, subject: str = "s", size: int = 5, **more: JsonValue) -> dict[str, JsonValue]:
    """Return a mail as the server knows it."""
    return {"id": name, "subject": subject, "size": size, **more}


class Mailbox:
    """The server, in the place of its connection: what it was asked, and what is in the box."""

    def __init__(
        self,
        *mails: dict[str, JsonValue],
        server: str = "mail",
        described: "Mapping[str, JsonValue]" = MappingProxyType(TOOLS),
    ) -> None:
        self.mails = mails
        self.server = server
        self._described = dict(described)
        self.asked: list[tuple[str, Mapping[str, JsonValue]]] = []

    @property
    def tools(self) -> tuple[McpTool, ...]:
        """Its tools, for the parts of an application with the block `blocks`."""
        settings = McpServerSettings.model_validate({"command": sys.executable, "tools": self._described})
        return tuple(McpTool(self.server, name, settings, self.ask) for name in self._described)

    async def ask(self, ask: Ask) -> McpResult:
        """Answer a call."""
        self.asked.append((ask.tool, ask.arguments))
        found = self.found(ask)
        return McpResult(REFUSED, failed=True) if found is None else McpResult(json.dumps(found), structured=found)

    def found(self, ask: Ask) -> dict[str, JsonValue] | None:
        """Return the structured result of a call, None for an error."""
        match ask.tool:
            case "find" | "thread" | "copy":
                return {"status": "ok", "mails": list(self.mails)} if self.mails else None
            case "read":
                one = next((mail for mail in self.mails if mail["id"] == ask.arguments["id"]), None)
                return None if one is None else {"subject": one["subject"], "body": one.get("body", "")}
            case _:
                return {"status": "deleted"}


def served(name: str = "mail") -> dict[str, JsonValue]:
    """Return the block `mcp_servers` of a configuration for a `Mailbox` among the parts."""
    return {name: {"command": sys.executable, "tools": {}}}


def blocks(folder: Path, *mails: dict[str, JsonValue], name: str = "mail") -> dict[str, JsonValue]:
    """Return the block `mcp_servers` of a configuration with a mailbox that has these mails."""
    box = folder / f"{name}.json"
    box.write_text(json.dumps(mails), encoding="utf-8")
    return {name: {"command": sys.executable, "args": [SERVER, str(box)], "tools": TOOLS}}


LABELLED: Final[dict[str, JsonValue]] = {
    "mail": {"floor": "INTERNAL", "clearance": "INTERNAL", "hold": "untrusted"},
}
"""The section `policy.mcp_servers`: its results are UNTRUSTED."""
