"""A tool's result as text: other content is named by a constant, and a long text is cut."""

import json
from collections.abc import Callable
from typing import Final

from mcp import types

from bot.mcp.tool import McpResult

LONGEST: Final = 100_000
"""Characters of a result that a model is shown."""

CUT: Final = "\n(cut: the result is longer than may be shown)"
NOTHING: Final = "(the tool gave no text)"
NOT_TEXT: Final = "(something that is not text was left out)"


def as_text(result: types.CallToolResult, scrub: Callable[[str], str]) -> McpResult:
    """Return a result's text, or else its structured value as JSON; scrubbed before it is cut."""
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = scrub("\n".join(parts)) or NOTHING
    return McpResult(text if len(text) <= LONGEST else f"{text[:LONGEST]}{CUT}", failed=result.is_error)


def _part(block: types.ContentBlock) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.TextResourceContents):
        return block.resource.text
    return NOT_TEXT
