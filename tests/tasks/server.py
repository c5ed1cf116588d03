"""A server of the office, a process that speaks MCP over its pipes: `python server.py NAME FOLDER`.

All servers read `world.json` of the folder, and append what they do to `effects.jsonl`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

NAME, FOLDER = sys.argv[1], Path(sys.argv[2])


def world(part: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads((FOLDER / "world.json").read_text("utf-8"))[part]


def answer(**found: object) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=json.dumps(found))], structured_content=found)


def done(what: str, **how: object) -> CallToolResult:
    with (FOLDER / "effects.jsonl").open("a", encoding="utf-8") as effects:
        effects.write(f"{json.dumps({'tool': f'{NAME}__{what}', **how})}\n")
    return answer(status="done")


def find_mails() -> CallToolResult:
    return answer(mails=world("mails"))


def move(id: str, folder: str) -> CallToolResult:  # noqa: A002 - the name of its argument
    return done("move", id=id, folder=folder)


def send(to: str, subject: str, body: str) -> CallToolResult:
    return done("send", to=to, subject=subject, body=body)


def pay(to: str, amount: float, purpose: str) -> CallToolResult:
    return done("pay", to=to, amount=amount, purpose=purpose)


def invite(title: str, start: str, guests: list[str]) -> CallToolResult:
    return done("invite", title=title, start=start, guests=guests)


def history(channel: str) -> CallToolResult:
    return answer(messages=world("channels").get(channel, []))


def post(channel: str, text: str) -> CallToolResult:
    return done("post", channel=channel, text=text)


def fetch(url: str) -> CallToolResult:
    done("fetch", url=url)
    return answer(page=world("pages").get(url, "nothing is here"))


def find_files() -> CallToolResult:
    return answer(files=[{name: file[name] for name in ("id", "name", "months")} for file in world("files")])


def read(name: str) -> CallToolResult:
    return answer(text=[file["text"] for file in world("files") if file["name"].startswith(name)])


def archive(id: str) -> CallToolResult:  # noqa: A002 - as above
    return done("archive", id=id)


def delete(id: str) -> CallToolResult:  # noqa: A002 - as above
    return done("delete", id=id)


def search(city: str, day: str) -> CallToolResult:
    return answer(offers=[{**offer, "day": day} for offer in world("offers") if offer["city"] == city])


def book(id: str, euros: float) -> CallToolResult:  # noqa: A002 - as above
    return done("book", id=id, euros=euros)


def find_tickets() -> CallToolResult:
    return answer(tickets=world("tickets"))


def reply(id: str, text: str) -> CallToolResult:  # noqa: A002 - as above
    return done("reply", id=id, text=text)


SERVERS: dict[str, dict[str, Callable[..., CallToolResult]]] = {
    "mail": {"find": find_mails, "move": move, "send": send},
    "bank": {"pay": pay},
    "calendar": {"invite": invite},
    "chat": {"history": history, "post": post},
    "web": {"fetch": fetch},
    "drive": {"find": find_files, "read": read, "archive": archive, "delete": delete},
    "travel": {"search": search, "book": book},
    "desk": {"find": find_tickets, "reply": reply},
}

server = MCPServer(NAME)
for name, tool in SERVERS[NAME].items():
    server.add_tool(tool, name=name, description=name)
server.run()
