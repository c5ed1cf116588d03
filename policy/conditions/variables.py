"""The variables that a condition may use: the name, hooks, type and source of each.

Flat and always bound. A fact that is missing reads as the worst: an unlabelled source as the highest label, an
unlabelled sink as PUBLIC, an unknown audience as shared. The names in a document define further variables:
`has_<pattern>` for every named pattern, and `arg_<name>` for the arguments of the tools that a rule selects.
`given_<name>` tells whether the call has that argument.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from policy.conditions.expressions import BOOL, DOUBLE, INT, LEVEL, STRING, TEXTS
from policy.labels import PUBLIC, Label
from policy.request import Effect, Hook, Request

HAS: Final = "has_"
ARG: Final = "arg_"
GIVEN: Final = "given_"

ABSENT: Final[Mapping[str, object]] = MappingProxyType({BOOL: False, INT: 0, DOUBLE: 0.0, STRING: "", TEXTS: []})
"""The value that an absent argument reads as, by its type; arguments of other types cannot be read."""

_PYTHON: Final[Mapping[str, type]] = MappingProxyType({BOOL: bool, INT: int, DOUBLE: float, STRING: str})
_MOST: Final = 2**63

CALL_HOOKS: Final = frozenset({Hook.PRE_TOOL_CALL, Hook.MCP_TOOL_CALL})
TOOL_HOOKS: Final = CALL_HOOKS | {Hook.POST_TOOL_RESPONSE, Hook.SECRET_ACCESS}
CONTENT_HOOKS: Final = CALL_HOOKS | {Hook.PRE_CONTEXT_INJECTION, Hook.POST_TOOL_RESPONSE, Hook.PRE_OUTPUT}
_ENTRY_HOOKS: Final = frozenset({Hook.PRE_CONTEXT_INJECTION, Hook.POST_TOOL_RESPONSE})
_OUTPUT: Final = frozenset({Hook.PRE_OUTPUT})
_EVERY: Final = frozenset(Hook)
_ASKED: Final = _EVERY - _OUTPUT
"""The hooks at which a person asks. An output is decided again when it is sent, and then no person asks."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The sources that variables are read from."""

    request: Request
    """The request to decide."""
    label: Label
    """The session's taint, at PRE_OUTPUT joined with the label of the output; selectors see the same label."""
    top: Label
    """The highest label of the configuration."""
    found: frozenset[str]
    """The names of the patterns that occur in the content."""


Read = Callable[[Facts], object]


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable: its type, its hooks, the function that reads its value, and its meaning."""

    type: str
    hooks: frozenset[Hook]
    read: Read
    meaning: str


def _item(facts: Facts) -> Label:
    return facts.request.item or facts.top


def _result(facts: Facts) -> Label:
    tool = facts.request.tool
    return facts.top if tool is None or tool.result is None else tool.result


def _sink(facts: Facts) -> Label:
    there = facts.request.destination
    return PUBLIC if there is None or there.clearance is None else there.clearance


def _other_roles(facts: Facts) -> list[str]:
    others = facts.request.others
    return [] if others is None else sorted(map(str, others.roles))


def _label(name: str, hooks: frozenset[Hook], meaning: str, label: Callable[[Facts], Label]) -> dict[str, Variable]:
    """Return the three variables of a label."""
    return {
        f"{name}_level": Variable(LEVEL, hooks, lambda facts: int(label(facts).level), f"level of {meaning}"),
        f"{name}_compartments": Variable(
            TEXTS, hooks, lambda facts: sorted(label(facts).compartments), f"compartments of {meaning}"
        ),
        f"{name}_untrusted": Variable(
            BOOL, hooks, lambda facts: label(facts).untrusted, f"whether {meaning} is UNTRUSTED"
        ),
    }


def _clearance(name: str, hooks: frozenset[Hook], label: Callable[[Facts], Label]) -> dict[str, Variable]:
    """Return the two variables of a clearance, for which integrity means nothing."""
    both = _label(name, hooks, "the clearance of its readers", label)
    return {variable: made for variable, made in both.items() if not variable.endswith("_untrusted")}


VARIABLES: Final[Mapping[str, Variable]] = MappingProxyType(
    {
        "principal": Variable(
            STRING, _EVERY, lambda facts: facts.request.principal, "the principal that the session acts for"
        ),
        "role": Variable(STRING, _EVERY, lambda facts: str(facts.request.role), "that principal's role"),
        "asker": Variable(
            STRING, _ASKED, lambda facts: facts.request.asker, "the person who asked; in a shared chat a member"
        ),
        "asker_role": Variable(
            STRING, _ASKED, lambda facts: str(facts.request.asker_role), "that person's role, in a shared chat too"
        ),
        "principal_groups": Variable(
            TEXTS, _ASKED, lambda facts: sorted(facts.request.principal_groups), "groups of the principal"
        ),
        "asker_groups": Variable(
            TEXTS, _ASKED, lambda facts: sorted(facts.request.asker_groups), "groups of the person who asked"
        ),
        "other_roles": Variable(
            TEXTS, CALL_HOOKS, _other_roles, "roles of the other people whose words are in the conversation"
        ),
        "channel": Variable(STRING, _EVERY, lambda facts: facts.request.channel, "channel of the session's address"),
        **_label(
            "taint",
            _EVERY,
            "the session's taint (at PRE_OUTPUT joined with the label of the text)",
            lambda facts: facts.label,
        ),
        **_label("item", _ENTRY_HOOKS, "the item that would enter the context", _item),
        "tool_name": Variable(
            STRING, TOOL_HOOKS, lambda facts: facts.request.tool.name if facts.request.tool else "", "the tool"
        ),
        "tool_effect": Variable(
            STRING,
            CALL_HOOKS,
            lambda facts: str(facts.request.tool.effect if facts.request.tool else Effect.SEND),
            "`none`, `read`, `write` or `send`",
        ),
        "tool_consequential": Variable(
            BOOL,
            CALL_HOOKS,
            lambda facts: facts.request.tool is None or facts.request.tool.consequential,
            "whether the call has consequences outside",
        ),
        **_label("result", CALL_HOOKS, "the result of the call", _result),
        "destination_channel": Variable(
            STRING,
            _OUTPUT,
            lambda facts: facts.request.destination.channel if facts.request.destination else "",
            "channel of the destination",
        ),
        "destination_address": Variable(
            STRING,
            _OUTPUT,
            lambda facts: facts.request.destination.address if facts.request.destination else "",
            "address of the destination",
        ),
        "destination_shared": Variable(
            BOOL,
            _OUTPUT,
            lambda facts: facts.request.destination is None or facts.request.destination.shared,
            "whether several people read there",
        ),
        **_clearance("destination", _OUTPUT, _sink),
    }
)


def flag(pattern: str) -> str:
    """Return the variable that tells whether a named pattern occurs."""
    return HAS + pattern.replace("-", "_")


def at(hook: Hook, patterns: Collection[str], arguments: Mapping[str, str]) -> dict[str, str]:
    """Return the variables a condition at this hook may use, with their types.

    `patterns` are the named patterns, `arguments` those of the tools the rule selects, with their types.
    """
    known = {name: variable.type for name, variable in VARIABLES.items() if hook in variable.hooks}
    if hook in CONTENT_HOOKS:
        known |= dict.fromkeys(map(flag, patterns), BOOL)
    if hook in CALL_HOOKS:
        for name, kind in arguments.items():
            known |= {f"{ARG}{name}": kind, f"{GIVEN}{name}": BOOL}
    return known


def elsewhere(hook: Hook, patterns: Collection[str]) -> dict[str, str]:
    """Return the variables of other hooks, each with the sentence about its hooks."""
    missing = {
        name: f"`{name}` is not known at hook `{hook}`, it is at {_listed(variable.hooks)}"
        for name, variable in VARIABLES.items()
        if hook not in variable.hooks
    }
    if hook not in CONTENT_HOOKS:
        missing |= {flag(pattern): f"there is no content at hook `{hook}`" for pattern in patterns}
    return missing


def _listed(hooks: Collection[Hook]) -> str:
    return ", ".join(f"`{hook}`" for hook in Hook if hook in hooks)


def reader(name: str, kind: str, patterns: Collection[str]) -> Read:
    """Return how a known variable of this type is read."""
    if name in VARIABLES:
        return VARIABLES[name].read
    if name.startswith(HAS):
        pattern = next(pattern for pattern in patterns if flag(pattern) == name)
        return lambda facts: pattern in facts.found
    if name.startswith(GIVEN):
        wanted = name.removeprefix(GIVEN)
        return lambda facts: any(given == wanted and value is not None for given, value in facts.request.arguments)
    return _argument(name.removeprefix(ARG), kind)


def _argument(name: str, kind: str) -> Read:
    """Return how an argument of a call is read.

    The reader raises TypeError or OverflowError: the argument is none of this type, so that its rule cannot be
    evaluated.
    """

    def read(facts: Facts) -> object:
        value = next((value for given, value in facts.request.arguments if given == name), None)
        if value is None:
            return ABSENT[kind]
        if kind == TEXTS:
            if not isinstance(value, list | tuple):
                raise TypeError(f"not a {kind}")
            return [_typed(entry, STRING) for entry in cast("list[object] | tuple[object, ...]", value)]
        return _typed(value, kind)

    return read


def _typed(value: object, kind: str) -> object:
    if kind == DOUBLE and type(value) is int:
        value = float(value)
    if not isinstance(value, _PYTHON[kind]) or (kind != BOOL and isinstance(value, bool)):
        raise TypeError(f"not a {kind}")
    if isinstance(value, int) and not -_MOST <= value < _MOST:
        raise OverflowError(f"too large for a {kind}")
    return value
