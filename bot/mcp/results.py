"""A tool's result as text and files, in the server's order; a long text is cut, and unknown parts are left out."""

import json
from collections.abc import Callable
from typing import Final

from mcp import types
from pydantic import JsonValue

from bot.mcp.media import MOST, medium
from bot.mcp.tool import McpResult, Medium
from bot.tools.arguments import changed

LONGEST: Final = 100_000
"""Characters of a result that a model is shown."""

CUT: Final = "\n(cut: the result is longer than may be shown)"
NOTHING: Final = "(the tool gave no text)"
NOT_TEXT: Final = "(something that is not text was left out)"
MORE: Final = "(more files than may be kept were left out)"


def taken_in(result: types.CallToolResult, scrub: Callable[[str], str]) -> McpResult:
    """Return a result's text and files, or else its structured value as JSON; scrubbed before it is cut."""
    parts = [_part(block, scrub) for block in result.content]
    if not parts and result.structured_content is not None:
        # JSON writes some characters of a value otherwise, so it is taken out before.
        parts = [scrub(json.dumps(changed(result.structured_content, scrub), ensure_ascii=False))]
    text, media = "", list[Medium]()
    for part in parts:
        if isinstance(part, Medium) and len(media) < MOST:
            media.append(part.placed(len(text)))
            continue
        said = part if isinstance(part, str) else MORE
        text += f"\n{said}" if text else said
    if not text and not media:
        text = NOTHING
    if len(text) > LONGEST:
        text, media = f"{text[:LONGEST]}{CUT}", [one.placed(min(one.after, LONGEST)) for one in media]
    return McpResult(text, failed=result.is_error, media=tuple(media))


def described_part(result: types.CallToolResult, scrub: Callable[[str], str]) -> JsonValue:
    """Return a structured result that the operator described, None for one that is too long to be shown in parts."""
    value = changed(result.structured_content or {}, scrub)
    return value if len(json.dumps(value)) <= LONGEST else None


def _part(block: types.ContentBlock, scrub: Callable[[str], str]) -> str | Medium:
    if isinstance(block, types.TextContent):
        return scrub(block.text)
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.TextResourceContents):
        return scrub(block.resource.text)
    found = medium(block, scrub)
    return NOT_TEXT if found is None else found
