"""What the real Slack refuses in blocks and views, and what a message of them notifies and links."""

import json
import re
from collections.abc import Iterator
from typing import Any, TypeGuard

from tests.sim.slack_state import Json, SlackError

MARKDOWN = 12_000
TOGETHER = 13_200
_INLINE = {"text", "link", "user", "usergroup", "broadcast", "channel", "emoji", "date", "color", "team"}
_RICH = {"rich_text_section", "rich_text_list", "rich_text_quote", "rich_text_preformatted"}
_KNOWN = {
    *("section", "divider", "header", "actions", "context", "image", "input", "rich_text", "markdown", "table", "file"),
    *("context_actions", "video"),
}
_MENTION = re.compile(r"<(![a-z^][^>|]*|@[A-Z0-9a-z]+)(?:\|[^>]*)?>")
_LINK = re.compile(r"(?<![\w<])(?:https?://|www\.)[^\s<>|`]+|<((?:https?|mailto)[^>|]+)")
_NAMES = re.compile(r"(?<!\w)@(here|channel|everyone)\b")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def is_object(value: object) -> TypeGuard[Json]:
    """Tell whether a value is a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a value is a JSON list."""
    return isinstance(value, list)


def check_message(blocks: Any) -> list[Json]:  # noqa: ANN401 - whatever was sent
    """Return a message's blocks.

    Raises SlackError: the real one would refuse them.
    """
    return _checked(blocks, most=50)


def check_view(view: Any) -> Json:  # noqa: ANN401 - whatever was sent
    """Return a view.

    Raises SlackError: the real one would refuse it.
    """
    sent = decoded(view)
    if not is_object(sent) or sent.get("type") not in {"modal", "home"}:
        raise SlackError("invalid_arguments", response_metadata={"messages": ["[ERROR] view: invalid type"]})
    if sent["type"] == "modal" and not 1 <= len(sent.get("title", {}).get("text", "")) <= 24:
        raise SlackError("invalid_arguments", response_metadata={"messages": ["[ERROR] view/title: 1 to 24 letters"]})
    if len(str(sent.get("private_metadata", ""))) > 3_000 or len(str(sent.get("callback_id", ""))) > 255:
        raise SlackError("invalid_arguments", response_metadata={"messages": ["[ERROR] view: a field is too long"]})
    has_input = any(block.get("type") == "input" for block in _checked(sent.get("blocks"), most=100))
    if has_input and sent["type"] == "modal" and not sent.get("submit"):
        raise SlackError("invalid_arguments", response_metadata={"messages": ["[ERROR] view/submit: missing"]})
    return sent


def decoded(value: Any) -> Any:  # noqa: ANN401 - JSON, also as a text in a form
    """Return what a field holds, which clients send as JSON or as a text of it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise SlackError("invalid_blocks_format") from None


def _checked(value: Any, most: int) -> list[Json]:  # noqa: ANN401 - whatever was sent
    blocks = decoded(value)
    if not is_list(blocks):
        raise SlackError("invalid_blocks_format")
    wrong = list(_problems(blocks, most))
    if wrong:
        raise SlackError("invalid_blocks", response_metadata={"messages": [f"[ERROR] {each}" for each in wrong]})
    if len(json.dumps(blocks, ensure_ascii=False)) > TOGETHER:
        raise SlackError("msg_blocks_too_long")
    return blocks


def _problems(blocks: list[Any], most: int) -> Iterator[str]:
    if len(blocks) > most:
        yield f"no more than {most} items allowed"
    if not all(is_object(block) for block in blocks):
        yield "a block is no object"
        return
    names = [block["block_id"] for block in blocks if "block_id" in block]
    if len(set(names)) < len(names):
        yield "block_id is there twice"
    if sum(len(block.get("text", "")) for block in blocks if block.get("type") == "markdown") > MARKDOWN:
        yield f"markdown blocks: more than {MARKDOWN} characters together"
    if sum(block.get("type") == "table" for block in blocks) > 1:
        yield "only one table allowed"
    for at, block in enumerate(blocks):
        yield from (f"{problem} [json-pointer:/blocks/{at}]" for problem in _block(block))


def _block(block: Json) -> Iterator[str]:
    match block.get("type"):
        case "section":
            yield from _section(block)
        case "header":
            yield from _text(block.get("text"), 150, "plain_text")
        case "actions" | "context" as kind:
            elements = block.get("elements", [])
            most = 25 if kind == "actions" else 10
            yield from [] if 1 <= len(elements) <= most else [f"1 to {most} elements"]
            yield from _actions(elements)
        case "image" | "markdown" as kind:
            needed = "alt_text" if kind == "image" else "text"
            yield from [] if block.get(needed) else [f"{kind} without {needed}"]
        case "input":
            yield from _text(block.get("label"), 2_000, "plain_text")
            yield from [] if block.get("element") else ["input without element"]
        case "rich_text":
            yield from _rich(block.get("elements"))
        case "table":
            rows = block.get("rows", [])
            yield from [] if 1 <= len(rows) <= 100 and all(len(row) <= 20 for row in rows) else ["table too large"]
        case kind:
            yield from [] if kind in _KNOWN else [f"unsupported type: {kind}"]


def _section(block: Json) -> Iterator[str]:
    if not block.get("text") and not block.get("fields"):
        yield "section without text"
    yield from _text(block.get("text"), 3_000)
    fields = block.get("fields", [])
    yield from ["too many fields"] if len(fields) > 10 else []
    yield from (problem for each in fields for problem in _text(each, 2_000))
    yield from _actions([block["accessory"]] if "accessory" in block else [])


def _text(text: Json | None, most: int, kind: str = "") -> Iterator[str]:
    if text is None:
        return
    if text.get("type") not in ({kind} if kind else {"plain_text", "mrkdwn"}):
        yield f"text of type {text.get('type')}"
    if not 1 <= len(text.get("text", "")) <= most:
        yield f"text must be of 1 to {most} characters"


def _actions(elements: list[Json]) -> Iterator[str]:
    names = [element.get("action_id") for element in elements if "action_id" in element]
    if len(set(names)) < len(names):
        yield "action_id is there twice"
    for element in elements:
        if len(str(element.get("action_id", ""))) > 255:
            yield "action_id is too long"
        if element.get("type") == "button":
            yield from _text(element.get("text"), 75, "plain_text")
            if len(element.get("value", "")) > 2_000 or len(element.get("url", "")) > 3_000:
                yield "value or url is too long"


def _rich(elements: Any, *, inside: bool = False) -> Iterator[str]:  # noqa: ANN401 - whatever was sent
    if not is_list(elements) or not elements:
        yield "rich text without elements"
        return
    for element in elements:
        kind = str(element.get("type"))
        if kind not in (_INLINE if inside else _RICH):
            yield f"unsupported rich text: {kind}"
        elif kind == "rich_text_list":
            yield from [] if element.get("style") in {"bullet", "ordered"} else ["list without style"]
            yield from [] if 0 <= element.get("indent", 0) <= 8 else ["indent of a list"]
            yield from _rich([part for each in element.get("elements", []) for part in each["elements"]], inside=True)
        elif not inside:
            yield from _rich(element.get("elements"), inside=True)
        elif (kind == "text" and not element.get("text")) or (kind == "link" and not element.get("url")):
            yield f"empty {kind}"


def notified(body: Json) -> set[str]:
    """Return whom a message notifies: `!channel`, `@U…`; its text counts only where it has no blocks."""
    found = set[str]()
    for node in _nodes(body.get("blocks") or []):
        match node:
            case {"type": "user", "user_id": user}:
                found.add(f"@{user}")
            case {"type": "broadcast", "range": who}:
                found.add(f"!{who}")
            case {"type": "usergroup", "usergroup_id": group}:
                found.add(f"!subteam^{group}")
            case {"type": "mrkdwn" | "markdown", "text": str(text)}:
                found |= set(_MENTION.findall(text))
            case _:
                pass
    if not body.get("blocks"):
        text = str(body.get("text", ""))
        found |= set(_MENTION.findall(text))
        if body.get("link_names") in {True, "1", "true"} or body.get("parse") == "full":
            found |= {f"!{name}" for name in _NAMES.findall(text)}
    return found


def clickable(body: Json) -> set[str]:
    """Return the addresses that a reader can click, in the blocks or, without any, in the text outside code."""
    found = set[str]()
    for node in _nodes(body.get("blocks") or []):
        match node:
            case {"type": "link", "url": url} | {"type": "button", "url": url}:
                found.add(url)
            case {"type": "mrkdwn" | "markdown", "text": str(text)}:
                found |= _links(text)
            case _:
                pass
    return found if body.get("blocks") else _links(str(body.get("text", "")))


def shown(body: Json) -> str:
    """Return the words that a reader sees, from blocks where there are any."""
    blocks: list[Json] = body.get("blocks") or []
    if not blocks:
        text = str(body.get("text", ""))
        return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return "\n".join("".join(_words(block)) for block in blocks)


def _words(node: Json) -> Iterator[str]:
    for inner in _nodes([node]):
        if isinstance(text := inner.get("text"), str):
            yield text
        if str(inner.get("type", "")).startswith("rich_text_"):
            yield "\n"


def _links(text: str) -> set[str]:
    return {found[1] or found[0] for found in _LINK.finditer(_CODE.sub(" ", text))}


def _nodes(value: Any) -> Iterator[Json]:  # noqa: ANN401 - JSON
    waiting: list[Any] = [value]
    while waiting:
        node = waiting.pop(0)
        if is_object(node):
            yield node
            waiting[:0] = list(node.values())
        elif is_list(node):
            waiting[:0] = node
