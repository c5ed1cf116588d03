"""An older MCP server in plain lines, for what no library would send: a result that is none, requests of its own."""

import json
import sys
from typing import Any


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


def call(number: object, tool: object, meta: object) -> None:
    """Answer a call of `nonsense`, tell what came beside one of `meta`, or what is said to a request of our own."""
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
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
    while True:
        message = receive()
        if message.get("method") == "initialize":
            send(id=message["id"], result=info)
        elif message.get("method") == "tools/call":
            call(message["id"], message["params"]["name"], message["params"].get("_meta"))
        elif "id" in message:
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
