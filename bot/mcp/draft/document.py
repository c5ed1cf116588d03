"""The YAML of a draft, for people to read, decide about and paste into config.yaml.

The words of a server stand in comments alone: in one line each, cut, and with every character escaped that could end a
comment or be obeyed by a terminal. All values are written as quoted texts unless they are plain words. The same listing
gives the same text.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, cast

from pydantic import JsonValue

from bot.mcp.draft.candidates import candidates, taking
from bot.mcp.draft.shapes import Shape, without_words
from bot.mcp.draft.tools import Draft, DraftedTool
from policy.labels import Label

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_NOT_TEXT: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
"""Words that some reader of YAML takes for another value than a text."""

_NESTED: Final = ("items", "others", "fields", "any_of")
_WIDTH: Final = 110
_TOOL_WORDS: Final = 600
_ARGUMENT_WORDS: Final = 200
_NAME: Final = 80
_ESCAPES: Final = MappingProxyType({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def document(draft: Draft, entry: Mapping[str, JsonValue] | None, top: Label) -> Iterator[str]:
    """Yield the lines of a draft.

    `entry` is how a server that is not configured yet is reached; None for a configured one, whose entry stays. `top`
    is the highest label of the policy.
    """
    yield from _introduction(draft, configured=entry is None)
    yield "mcp_servers:"
    yield f"  {_key(draft.server)}:"
    if entry is not None:
        yield from (f"    {name}: {flow(value)}" for name, value in entry.items())
    yield "    tools:" if draft.tools else "    tools: {}"
    for tool in draft.tools:
        yield from _tool(tool)
    for one in draft.left_out:
        yield from _comment(f"Left out: {quoted(one.name, _NAME)}, as it cannot be written: {one.why}", 6)
    yield from _policy(draft, top, configured=entry is None)


def _introduction(draft: Draft, *, configured: bool) -> Iterator[str]:
    where = "into its entry, in place of `tools`" if configured else "into config.yaml"
    yield f"# A draft of the MCP server `{draft.server}`. Paste it {where}, and its policy into `policy`."
    yield "# Words in quotes are claims of the server: they may be wrong, or meant to mislead you."
    yield "# Until you decide, another person approves each call, and every result has the highest label."
    yield "# Decide for each tool:"
    yield "# - description: say what it does. The model reads these words, and no word of the server."
    yield "# - effect: `none`, `read`, `write` or `send`."
    yield "# - consequential: `false` if no other person can notice a call."
    yield "# - repeatable: `true` if a repeated call does no harm."
    yield "# - arguments: describe them, and narrow them. `role` says what one does: `content` chooses nothing."
    yield "# - output: with `hold: untrusted`, mark parts that the agent may be shown. Comments name candidates."
    yield f"# - the rule `review-{draft.server}`: take the tool off its list."
    yield "# Then give the labels that you know to be right: the floor of results, the clearance of the server."
    yield '# docs/mcp.md explains all of it, and docs/policy-guide.md has a chapter "Fewer questions".'


def _tool(tool: DraftedTool) -> Iterator[str]:
    yield f"      {_key(tool.listed.name)}:"
    if tool.listed.description:
        yield from _comment(f"It says: {quoted(tool.listed.description, _TOOL_WORDS)}", 8)
    if tool.listed.hints:
        yield from _comment(f"It claims to be: {', '.join(tool.listed.hints)}", 8)
    yield f"        description: {flow(tool.description)}"
    yield "        effect: send"
    yield "        consequential: true"
    yield "        repeatable: false"
    for told in taking(tool.arguments):
        yield from _comment(escaped(told), 8)
    yield "        arguments:" if tool.arguments else "        arguments: {}"
    for name, shape in tool.arguments.items():
        yield from _argument(name, shape, 10)
    if tool.output is not None:
        for told in candidates(tool.output):
            yield from _comment(escaped(told), 8)
        yield from _argument("output", tool.output, 8)
    if tool.unchecked:
        yield from _comment(f"Its structured results are not checked: {tool.unchecked}", 8)


def _argument(name: str, shape: Shape, indent: int) -> Iterator[str]:
    pad, said = " " * indent, shape.get("description")
    if isinstance(said, str) and said.strip():
        yield from _comment(quoted(said, _ARGUMENT_WORDS), indent)
    if not any(part in shape for part in _NESTED):
        yield f"{pad}{_key(name)}: {flow(without_words(shape))}"
        return
    yield f"{pad}{_key(name)}:"
    yield from _parts(shape, indent + 2)


def _parts(shape: Shape, indent: int) -> Iterator[str]:
    """Yield the fields of a description that holds others, one below the other."""
    pad = " " * indent
    for key, value in shape.items():
        if key not in {*_NESTED, "description"}:
            yield f"{pad}{key}: {flow(value)}"
    for key in ("items", "others"):
        if key in shape:
            yield from _argument(key, cast("Shape", shape[key]), indent)
    fields = cast("dict[str, Shape] | None", shape.get("fields"))
    if fields is not None:
        yield f"{pad}fields:" if fields else f"{pad}fields: {{}}"
        for one, inner in fields.items():
            yield from _argument(one, inner, indent + 2)
    if "any_of" in shape:
        yield f"{pad}any_of:"
        for choice in cast("list[Shape]", shape["any_of"]):
            yield f"{pad}  - {flow(without_words(choice))}"


def _policy(draft: Draft, top: Label, *, configured: bool) -> Iterator[str]:
    """Yield the policy of the drafted tools: the highest label, the lowest clearance, and a person for each call."""
    if configured and not draft.tools:
        return
    yield "policy:"
    if configured:
        yield "  tools:"
        for tool in draft.tools:
            yield f"    {_key(tool.offered)}: {flow({'result': str(top), 'clearance': 'PUBLIC'})}"
    else:
        label: dict[str, JsonValue] = {
            "floor": str(top).removesuffix("~"),
            "integrity": "UNTRUSTED",
            "clearance": "PUBLIC",
        }
        yield "  mcp_servers:"
        yield f"    {_key(draft.server)}: {flow(label)}"
    if draft.tools:
        yield "  rules:"
        yield f"    - id: {flow(f'review-{draft.server}')}"
        yield "      hook: MCP_TOOL_CALL"
        yield "      action: REQUIRE_APPROVAL"
        yield '      message: "this tool is not reviewed yet"'
        yield "      tools:"
        yield from (f"        - {flow(tool.offered)}" for tool in draft.tools)


def flow(value: JsonValue) -> str:
    """Return a value as YAML in one line."""
    match value:
        case str():
            plain = len(value) <= _WIDTH and _PLAIN.match(value) and value.lower() not in _NOT_TEXT
            return value if plain else f'"{escaped(value, quotes=True)}"'
        case dict():
            return f"{{{', '.join(f'{_key(name)}: {flow(one)}' for name, one in value.items())}}}"
        case list():
            return f"[{', '.join(map(flow, value))}]"
        case _:
            return json.dumps(value)


def quoted(text: str, most: int) -> str:
    """Return words of a server in quotes, in one line, with as many of their characters as `most`."""
    return f'"{escaped(text[:most], quotes=True)}"{" (cut)" if len(text) > most else ""}'


def escaped(text: str, *, quotes: bool = False) -> str:
    """Return a text in which only printable characters are left, the others escaped as YAML has it."""
    return "".join(_escaped(char, quotes=quotes) for char in text)


def _escaped(char: str, *, quotes: bool) -> str:
    if quotes and char in {'"', "\\"}:
        return f"\\{char}"
    if char.isprintable():
        return char
    if char in _ESCAPES:
        return _ESCAPES[char]
    # Half of a surrogate pair is no character, so YAML has no escape for it.
    code = 0xFFFD if 0xD800 <= ord(char) <= 0xDFFF else ord(char)  # noqa: PLR2004 - where the halves are
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"  # noqa: PLR2004 - four digits are enough


def _key(name: str) -> str:
    return flow(name)


def _comment(text: str, indent: int) -> Iterable[str]:
    pad = f"{' ' * indent}# "
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=pad,
        subsequent_indent=f"{pad}  ",
        break_on_hyphens=False,
        drop_whitespace=True,
    )
