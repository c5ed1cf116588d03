"""An MCP server of a mailbox, whose mails stand in a JSON file: `python mail_server.py FILE`.

It answers in structured results alone. Everything in a mail, its id too, is what somebody wrote. What it deletes it
writes into `FILE.deleted`, one id a line.
"""

import json
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

box = Path(sys.argv[1])
server = MCPServer("mailbox")


def mails() -> list[dict[str, Any]]:
    return json.loads(box.read_text())


def answer(**found: object) -> CallToolResult:
    return CallToolResult(content=[], structured_content=found)


@server.tool()
def find() -> CallToolResult:
    """List the mails."""
    if not mails():
        raise ToolError("the box is closed")
    return answer(status="ok", mails=mails())


@server.tool()
def read(id: str) -> CallToolResult:  # noqa: A002 - the name of its argument
    """Read a mail."""
    found = [mail for mail in mails() if mail["id"] == id]
    return answer(subject=found[0]["subject"], body=found[0].get("body", "")) if found else answer(none=id)


@server.tool()
def delete(id: str) -> CallToolResult:  # noqa: A002 - as above
    """Delete a mail."""
    with box.with_suffix(".deleted").open("a") as deleted:
        deleted.write(f"{id}\n")
    return answer(status="deleted")


server.run()
