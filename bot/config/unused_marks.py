"""Roles and handles of MCP servers' tools that have no effect: a bound without an argument, a handle without a result.

An operator who writes one believes that it counts, so it is refused with its line.
"""

from collections.abc import Iterator, Mapping

from bot.config.mcp import McpServerSettings, offered_name
from bot.config.schemas.argument import McpArgument
from policy.document.model import Document
from policy.errors import Problem, nearest
from policy.request import ArgumentRole


def unused_marks(servers: Mapping[str, McpServerSettings], policy: Document | None) -> Iterator[Problem]:
    """Yield the bounds that bound no argument, and the handles of arguments that no result brings."""
    for server, settings in servers.items():
        results = [one.output for one in settings.tools.values() if one.output is not None]
        known = {part.handle for result in results for part in _parts(result) if part.handle is not None}
        for tool, described in settings.tools.items():
            for name, argument in described.arguments.items():
                for kind in sorted({part.handle for part in _parts(argument) if part.handle} - known):
                    said = f"no `output` of this server has the handle `{kind}`{nearest(kind, known)}"
                    yield Problem(("mcp_servers", server, "tools", tool, "arguments", name), said)
            if policy is not None:
                roles = {part.steers_as for argument in described.arguments.values() for part in _parts(argument)}
                yield from _bounds(policy, offered_name(server, tool), roles)


def _bounds(policy: Document, tool: str, roles: set[ArgumentRole | None]) -> Iterator[Problem]:
    for role in ArgumentRole:
        if role not in roles and policy.bounds(tool).of(role) is not None:
            said = f"no argument of `{tool}` has the role `{role.value}`, give it to one under `mcp_servers`"
            yield Problem(("policy", "tools", tool, "bounds", role.value), said)


def _parts(part: McpArgument) -> Iterator[McpArgument]:
    """Yield a description and all below it."""
    yield part
    inner = (*(part.fields or {}).values(), *(part.any_of or ()), part.items, part.others)
    for one in inner:
        if one is not None:
            yield from _parts(one)
