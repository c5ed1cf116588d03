"""OpenAI's two protocols: chat completions and responses."""

import json
from typing import Any, Final

from tests.sim.act import Act

_USAGE: Final = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
_RESPONSE_USAGE: Final = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


class Chat:
    """Chat completions."""

    @staticmethod
    def whole(body: dict[str, Any], act: Act) -> dict[str, Any]:
        """Return a response at once."""
        message: dict[str, Any] = {"role": "assistant", "content": act.text or None, "refusal": None}
        if act.calls:
            message["tool_calls"] = [_chat_call(number, *call) for number, call in enumerate(act.calls)]
        choice = {"index": 0, "message": message, "finish_reason": _finish(act), "logprobs": None}
        return {**_chat(body, act, "chat.completion"), "choices": [choice], **({"usage": _USAGE} if act.usage else {})}

    @staticmethod
    def pieces(body: dict[str, Any], act: Act) -> list[str]:
        """Return a response in server-sent events."""
        base = _chat(body, act, "chat.completion.chunk")
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in act.words() if word]
        deltas += [
            {"tool_calls": [{"index": number, **_chat_call(number, *call)}]} for number, call in enumerate(act.calls)
        ]
        events = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        events.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(act)}]})
        if act.usage:
            events.append({**base, "choices": [], "usage": _USAGE})
        return [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]


class Responses:
    """Responses."""

    @staticmethod
    def whole(body: dict[str, Any], act: Act) -> dict[str, Any]:
        """Return a response at once."""
        used = {"usage": _RESPONSE_USAGE} if act.usage else {}
        response = _response(body, act, "incomplete" if act.finish else "completed")
        if act.finish:
            response["incomplete_details"] = {"reason": act.finish}
        return {**response, "output": _items(act), **used}

    @classmethod
    def pieces(cls, body: dict[str, Any], act: Act) -> list[str]:
        """Return a response in server-sent events."""
        events: list[dict[str, Any]] = [{"type": "response.created", "response": _response(body, act, "in_progress")}]
        for index, item in enumerate(_items(act)):
            place = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                opened: dict[str, Any] = {**item, "content": [], "status": "in_progress"}
                part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
                events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
                events.append({"type": "response.content_part.added", **place, "content_index": 0, "part": part})
                events += [
                    {"type": "response.output_text.delta", **place, "content_index": 0, "delta": word, "logprobs": []}
                    for word in act.words()
                ]
            elif item["type"] == "function_call":
                opened = {**item, "arguments": "", "status": "in_progress"}
                events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
                delta = {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
                events.append(delta)
            else:
                events.append({"type": "response.output_item.added", "output_index": index, "item": item})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        last = cls.whole(body, act)
        events.append({"type": f"response.{last['status']}", "response": last})
        return [
            f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
            for number, event in enumerate(events)
        ]


def of(path: str) -> type[Chat | Responses]:
    """Return what speaks the protocol of a path."""
    return Responses if path.endswith("/responses") else Chat


def _chat(body: dict[str, Any], act: Act, kind: str) -> dict[str, Any]:
    return {"id": "chat-1", "object": kind, "created": 1_900_000_000, "model": act.model or body["model"]}


def _chat_call(number: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _finish(act: Act) -> str:
    return act.finish or ("tool_calls" if act.calls else "stop")


def _response(body: dict[str, Any], act: Act, status: str) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_900_000_000,
        "model": act.model or body["model"],
        "status": status,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
    }


def _items(act: Act) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if act.native:
        search = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
        found.append({**search, "action": {"type": "search", "query": "secrets", "queries": ["secrets"]}})
    if act.text:
        text: dict[str, Any] = {"type": "output_text", "text": act.text, "annotations": [], "logprobs": []}
        found.append({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]})
    for number, (name, arguments) in enumerate(act.calls):
        call = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}", "status": "completed"}
        found.append({**call, "name": name, "arguments": arguments})
    return found
