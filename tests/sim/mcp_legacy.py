"""An older MCP server in plain lines, for what no library would send: broken answers, and requests of its own.

`mcp_legacy.py` shakes hands and plays a fault when a tool of that name is called; `mcp_legacy.py FAULT` plays it in
place of the handshake. `mcp_legacy.py catalogue` lists the tools of `mcp_catalogue`, and answers a call with its
arguments.
"""

import json
import sys
from typing import Any

ERROR = {"code": -32000, "message": "no"}
TEXT: dict[str, Any] = {"content": [{"type": "text", "text": "hello"}]}


def broken(fault: str, number: object) -> str:
    """Return what is written in place of an answer to a request of this number; a line that ends stops there."""
    head = {"jsonrpc": "2.0", "id": number}
    lines: dict[str, object] = {
        "no-message": {"hello": 1},
        "no-version": {"id": number, "result": TEXT},
        "both": {**head, "result": TEXT, "error": ERROR},
        "neither": head,
        "wrong-id": {**head, "id": 4711, "result": TEXT},
        "nameless": {**head, "id": None, "error": ERROR},
        "result-text": {**head, "result": "hello"},
        "error-text": {**head, "error": "no"},
        "batch": [{**head, "result": TEXT}],
    }
    if fault in lines:
        return json.dumps(lines[fault]) + "\n"
    whole = json.dumps({**head, "result": TEXT})
    return {"half": whole[:20], "cut": whole[:20] + "\n", "chatter": "working on it\n", "huge": "x" * 5_000_000}[fault]


FAULTS = (
    "no-message",
    "no-version",
    "both",
    "neither",
    "wrong-id",
    "nameless",
    "result-text",
    "error-text",
    "batch",
    "half",
    "cut",
    "chatter",
    "huge",
)


def send(**message: object) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    """Read one message; the end of the input ends the process."""
    line = sys.stdin.readline()
    if not line:
        raise SystemExit
    return json.loads(line)


def play(fault: str, number: object) -> None:
    """Answer with a fault, and say nothing more for as long as a client waits."""
    sys.stdout.write(broken(fault, number))
    sys.stdout.flush()
    while sys.stdin.readline():
        pass
    raise SystemExit


def catalogue(message: dict[str, Any], *, endless: bool = False) -> None:
    """List the tools of the catalogue, if need be page after page for ever, or answer a call with its arguments."""
    from mcp_catalogue import LEFT_OUT, TOOLS  # noqa: PLC0415 - beside this file, where its process finds it

    if message["method"] == "tools/list":
        every = [*TOOLS, *(tool for tool, _ in LEFT_OUT)]
        listed = [
            {"name": tool.name, "description": f"Does {tool.name}.", "inputSchema": tool.schema} for tool in every
        ]
        send(id=message["id"], result={"tools": listed[::-1], **({"nextCursor": "more"} if endless else {})})
    else:
        text = json.dumps(message["params"].get("arguments"))
        send(id=message["id"], result={"content": [{"type": "text", "text": text}]})


def call(number: object, tool: object, meta: object) -> None:
    """Answer a call of `nonsense`, tell what came beside one of `meta`, or what is said to a request of our own."""
    if tool in FAULTS:
        play(str(tool), number)
        return
    if tool == "nonsense":
        send(id=number, result={"content": "no list"})
        return
    if tool == "meta":
        send(id=number, result={"content": [{"type": "text", "text": json.dumps(meta)}]})
        return
    question: dict[str, Any] = {"message": "your password?", "requestedSchema": {"type": "object", "properties": {}}}
    send(id="mine", method=tool, params={} if tool == "roots/list" else question)
    reply = receive()
    send(id=number, result={"content": [{"type": "text", "text": json.dumps(reply.get("result", "refused"))}]})


def main() -> None:
    """Shake hands as in 2025, then answer calls."""
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
    while True:
        message = receive()
        if chosen in FAULTS:
            play(chosen, message.get("id"))
        if chosen and message.get("method") in {"tools/list", "tools/call"}:
            catalogue(message, endless=chosen == "endless")
        elif message.get("method") == "initialize":
            send(id=message["id"], result=info)
        elif message.get("method") == "tools/call":
            call(message["id"], message["params"]["name"], message["params"].get("_meta"))
        elif "id" in message:
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
