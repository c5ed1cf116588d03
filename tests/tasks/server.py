"""A server of the office, a process that speaks MCP over its pipes: `python server.py NAME FOLDER`.

All servers read `world.json` of the folder, and append what they do to `effects.jsonl`. They speak in plain lines: the
library for it takes a second and a half to import, and each office has eight servers.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

JsonObject = dict[str, Any]

NAME, FOLDER = sys.argv[1], Path(sys.argv[2])


def world(part: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads((FOLDER / "world.json").read_text("utf-8"))[part]


def answer(**found: object) -> JsonObject:
    return {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}


def done(what: str, **how: object) -> JsonObject:
    with (FOLDER / "effects.jsonl").open("a", encoding="utf-8") as effects:
        effects.write(f"{json.dumps({'tool': f'{NAME}__{what}', **how})}\n")
    return answer(status="done")


def find_mails() -> JsonObject:
    return answer(mails=world("mails"))


def move(id: str, folder: str) -> JsonObject:  # noqa: A002 - the name of its argument
    return done("move", id=id, folder=folder)


def send(to: str, subject: str, body: str) -> JsonObject:
    return done("send", to=to, subject=subject, body=body)


def pay(to: str, amount: float, purpose: str) -> JsonObject:
    return done("pay", to=to, amount=amount, purpose=purpose)


def invite(title: str, start: str, guests: list[str]) -> JsonObject:
    return done("invite", title=title, start=start, guests=guests)


def history(channel: str) -> JsonObject:
    return answer(messages=world("channels").get(channel, []))


def post(channel: str, text: str) -> JsonObject:
    return done("post", channel=channel, text=text)


def fetch(url: str) -> JsonObject:
    done("fetch", url=url)
    return answer(page=world("pages").get(url, "nothing is here"))


def find_files() -> JsonObject:
    return answer(files=[{name: file[name] for name in ("id", "name", "months")} for file in world("files")])


def read(name: str) -> JsonObject:
    return answer(text=[file["text"] for file in world("files") if file["name"].startswith(name)])


def archive(id: str) -> JsonObject:  # noqa: A002 - as above
    return done("archive", id=id)


def delete(id: str) -> JsonObject:  # noqa: A002 - as above
    return done("delete", id=id)


def search(city: str, day: str) -> JsonObject:
    return answer(offers=[{**offer, "day": day} for offer in world("offers") if offer["city"] == city])


def book(id: str, euros: float) -> JsonObject:  # noqa: A002 - as above
    return done("book", id=id, euros=euros)


def find_tickets() -> JsonObject:
    return answer(tickets=world("tickets"))


def reply(id: str, text: str) -> JsonObject:  # noqa: A002 - as above
    return done("reply", id=id, text=text)


SERVERS: dict[str, dict[str, Callable[..., JsonObject]]] = {
    "mail": {"find": find_mails, "move": move, "send": send},
    "bank": {"pay": pay},
    "calendar": {"invite": invite},
    "chat": {"history": history, "post": post},
    "web": {"fetch": fetch},
    "drive": {"find": find_files, "read": read, "archive": archive, "delete": delete},
    "travel": {"search": search, "book": book},
    "desk": {"find": find_tickets, "reply": reply},
}


def answered(method: str, params: JsonObject) -> JsonObject | None:
    """Return the result of a request, None for a method that is not known."""
    tools = SERVERS[NAME]
    match method:
        case "initialize":
            info = {"name": NAME, "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
        case "tools/call":
            return tools[params["name"]](**params["arguments"])
        case _:
            return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answered(message["method"], message.get("params", {}))
            told = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)  # noqa: T201 - its answer


main()
