"""Roles, handles and bounds of tools that have no effect: a bound without an argument, a handle without a result.

An operator who writes one believes that it counts, so it is refused with its line.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from bot.config.mcp import McpServerSettings, McpToolSettings, offered_name
from bot.config.schemas.argument import McpArgument
from policy.document.bounds import entries_named
from policy.document.model import Document
from policy.errors import Problem, meant, nearest
from policy.request import ArgumentRole

_Kinds: TypeAlias = dict[ArgumentRole, set[str]]

_NOTHING_MADE: Final = (
    "names objects that a call made, and no `output` of this server has `handle: {kind}` with `made: true`"
)


def unused_marks(servers: Mapping[str, McpServerSettings], policy: Document | None) -> Iterator[Problem]:
    """Yield the bounds that bound no argument, and the handles of arguments that no result brings.

    A bound that names entries of held lists has to name a kind that an argument of the tool takes in that role. One for
    objects that a call made needs a result that is marked so.
    """
    taken, made = dict[str, _Kinds](), dict[str, frozenset[str]]()
    for server, settings in servers.items():
        results = [one.output for one in settings.tools.values() if one.output is not None]
        known = {part.handle for result in results for part in _parts(result) if part.handle is not None}
        for tool, described in settings.tools.items():
            for name, argument in described.arguments.items():
                for kind in sorted({part.handle for part in _parts(argument) if part.handle} - known):
                    said = f"no `output` of this server has the handle `{kind}`{nearest(kind, known)}"
                    yield Problem(("mcp_servers", server, "tools", tool, "arguments", name), said)
            taken[offered_name(server, tool)] = dict(_taken(described))
            made[offered_name(server, tool)] = frozenset(
                part.handle for result in results for part in _parts(result) if part.made and part.handle is not None
            )
            if policy is not None:
                roles = {part.steers_as for argument in described.arguments.values() for part in _parts(argument)}
                yield from _bounds(policy, offered_name(server, tool), roles)
    if policy is not None:
        yield from _unknown_entries(policy, taken, made)


def _bounds(policy: Document, tool: str, roles: set[ArgumentRole | None]) -> Iterator[Problem]:
    for role in ArgumentRole:
        if role not in roles and policy.bounds(tool).of(role) is not None:
            said = f"no argument of `{tool}` has the role `{role.value}`, give it to one under `mcp_servers`"
            yield Problem(("policy", "tools", tool, "bounds", role.value), said)


def _taken(described: McpToolSettings) -> Iterator[tuple[ArgumentRole, set[str]]]:
    """Yield the roles of a tool's arguments, each with the kinds of handles that they take."""
    marked = [one for argument in described.arguments.values() for one in (argument, argument.items) if one is not None]
    for role in ArgumentRole:
        yield role, {one.handle for one in marked if one.handle is not None and one.steers_as is role}


def _unknown_entries(
    policy: Document, taken: Mapping[str, _Kinds], made: Mapping[str, frozenset[str]]
) -> Iterator[Problem]:
    for tool in policy.tools:
        for role, place, text in policy.bounds(tool).entries():
            kinds = sorted(taken.get(tool, {}).get(role, set()))
            names = [name for kind in kinds for name in entries_named(kind, made=kind in made[tool])]
            if text in names:
                continue
            where = ("policy", "tools", tool, "bounds", role.value, place)
            unmarked = next((kind for kind in kinds if text in entries_named(kind, made=True)), "")
            if unmarked:
                yield Problem(where, f"`{text}` {_NOTHING_MADE.format(kind=unmarked)}")
                continue
            listed = f", it takes `{'`, `'.join(kinds)}`" if kinds else ""
            step = meant(text, names) or f", give the `handle` to an argument of the role `{role.value}`"
            said = f"`{text}` names entries of a kind that `{tool}` does not take as `{role.value}`{listed}{step}"
            yield Problem(where, said)


def _parts(part: McpArgument) -> Iterator[McpArgument]:
    """Yield a description and all below it."""
    yield part
    inner = (*(part.fields or {}).values(), *(part.any_of or ()), part.items, part.others)
    for one in inner:
        if one is not None:
            yield from _parts(one)
