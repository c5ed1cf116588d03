"""Anthropic's messages."""

import json
from typing import Any

from tests.sim.act import Act


def whole(body: dict[str, Any], act: Act) -> dict[str, Any]:
    """Return a message at once."""
    content: list[dict[str, Any]] = [{"type": "text", "text": act.text}] if act.text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": _object(arguments)}
        for number, (name, arguments) in enumerate(act.calls)
    ]
    if act.native:
        content.append({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}})
    return {**_message(body, act), "content": content, "stop_reason": _finish(act), "usage": _usage(act, 20)}


def pieces(body: dict[str, Any], act: Act) -> list[str]:
    """Return a message in server-sent events."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**_message(body, act), "usage": _usage(act, 1)}},
    ]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if act.text:
        words = [{"type": "text_delta", "text": word} for word in act.words()]
        blocks.append(({"type": "text", "text": ""}, words))
    for number, (name, arguments) in enumerate(act.calls):
        block: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        blocks.append((block, [{"type": "input_json_delta", "partial_json": arguments}]))
    if act.native:
        block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
        blocks.append((block, [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}]))
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": _finish(act), "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 20 if act.usage else 0}})
    events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def _message(body: dict[str, Any], act: Act) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": act.model or body["model"],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(act: Act, output: int) -> dict[str, int]:
    return {"input_tokens": 100, "output_tokens": output} if act.usage else {"input_tokens": 0, "output_tokens": 0}


def _finish(act: Act) -> str:
    return act.finish or ("tool_use" if act.calls else "end_turn")


def _object(arguments: str) -> Any:  # noqa: ANN401 - what is no JSON stays the text it is
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
