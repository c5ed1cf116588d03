"""How each piece of a policy document is read: one function per kind of value.

Each takes a raw value and the names that the document knows, and returns a value for the engine, or raises ValueError
with one sentence for the operator. It knows no pydantic, so that `policy.document.model` stays a description of shapes.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, Literal, TypeVar, cast

from policy import labels
from policy.conditions.variables import CONTENT_HOOKS, TOOL_HOOKS, flag
from policy.decision import Verdict
from policy.errors import LabelTextError, nearest
from policy.fixed import RESERVED as FIXED_RULES
from policy.labels import Label, Level
from policy.redaction.patterns import NAMES as BUILT_IN_PATTERNS
from policy.redaction.redactor import fault
from policy.request import Hook, Role, UntrustedContent

_E = TypeVar("_E", bound=Enum)
_V = TypeVar("_V")

WORKSPACE: Final = "workspace"
"""The folder name that every session's own folder has, so that no configured one may."""

API: Final = "api"
"""The channel of programs that use the HTTP API. Its accounts are theirs, and nothing is sent to them by name."""

DELIVERING: Final = frozenset({"message", "sessions_spawn", "runs_start"})
"""Our own tools whose text, or the result of whose text, may be delivered to other people."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
_SELECTOR = re.compile(r"\s*([^\sA-Za-z]*)\s*(\S*)\s*\Z")
_OPERATORS: Final[Mapping[str, Callable[[Level, Level], bool]]] = MappingProxyType(
    {
        ">=": lambda level, bound: level >= bound,
        ">": lambda level, bound: level > bound,
        "==": lambda level, bound: level == bound,
        "<=": lambda level, bound: level <= bound,
        "<": lambda level, bound: level < bound,
    }
)
_ASKING_HOOKS = frozenset({Hook.PRE_TOOL_CALL, Hook.MCP_TOOL_CALL, Hook.PRE_OUTPUT})

_DURATION = re.compile(r"([1-9][0-9]{0,6})([smhd])\Z")
_SECONDS: Final[Mapping[str, int]] = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})
_LONGEST_TIMEOUT = 7 * 86400
_MOST_PATTERNS = 100
_LONGEST_MESSAGE = 400
MOST_LISTED: Final = 200
LONGEST_LISTED: Final = 64
"""How many values a list of an operator may have, and how many characters one of them."""


Arguments = Mapping[str, Mapping[str, str]]
"""Tools with their arguments, and the type of each argument."""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names a document may use, gathered before validation so that every reference can be checked."""

    tools: frozenset[str]
    arguments: Arguments
    """The arguments of the tools, where they are known, with their types."""
    compartments: frozenset[str]
    channels: frozenset[str]
    patterns: frozenset[str]
    repeated: frozenset[tuple[str, str]]
    """The rule ids and accounts that occur more than once, each with its kind."""
    servers: frozenset[str] = frozenset()
    people: frozenset[str] = frozenset()
    """The names of the principals."""
    groups: frozenset[str] = frozenset()


def gather(raw: Mapping[object, object], tools: Collection[str], servers: Collection[str]) -> KnownNames:
    """Collect the names of a complete section not yet validated; validation reports a wrong shape."""
    ids = [items(rule).get("id") for rule in _list(raw["rules"])]
    accounts = [
        account
        for principal in items(raw["principals"]).values()
        for account in _list(items(principal).get("accounts"))
    ]
    return KnownNames(
        tools=frozenset(tools),
        arguments=cast("Arguments", tools) if isinstance(tools, Mapping) else MappingProxyType({}),
        compartments=_texts(_list(raw["compartments"])),
        channels=_texts(items(raw["channels"])),
        patterns=_texts(items(raw["patterns"])) | frozenset(BUILT_IN_PATTERNS),
        repeated=_repeated("rule", ids) | _repeated("account", accounts),
        servers=frozenset(servers),
        people=_texts(items(raw["principals"])),
        groups=_texts(items(raw["groups"])),
    )


def items(value: object) -> Mapping[object, object]:
    """Return a raw mapping, an empty one for a value of another type."""
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _texts(values: Collection[object]) -> frozenset[str]:
    return frozenset(value for value in values if isinstance(value, str))


def _repeated(kind: str, values: list[object]) -> frozenset[tuple[str, str]]:
    counts = Counter(value for value in values if isinstance(value, str))
    return frozenset((kind, name) for name, count in counts.items() if count > 1)


def refusal(message: str) -> ValueError:
    """Return the error that tells the operator so."""
    return ValueError(printable(message))


def printable(message: str) -> str:
    """Return a message fit for any terminal and of limited length, for any content of the document."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in message[:_LONGEST_MESSAGE])
    return shown if len(message) <= _LONGEST_MESSAGE else f"{shown} ..."


def label(value: object, known: KnownNames) -> Label:
    """Read a label or `top`; its compartments must be declared."""
    if value == "top":
        return labels.top(known.compartments)
    try:
        parsed = labels.parse(str(value))
    except LabelTextError as error:
        raise refusal(str(error)) from None
    strange = sorted(parsed.compartments - known.compartments)
    if strange:
        raise refusal(
            f"unknown compartment `{strange[0]}`{nearest(strange[0], known.compartments)}, or add it to `compartments`"
        )
    return parsed


def levels(value: object) -> frozenset[Level]:
    """Read a selector of levels such as `>= CONFIDENTIAL`; it must select some."""
    match = _SELECTOR.match(str(value))
    operator, name = match.groups() if match else ("", "")
    if operator not in _OPERATORS:
        raise refusal(f"`{value}` has no known operator, write one of `>=`, `>`, `==`, `<=`, `<` before a level")
    try:
        bound = labels.parse_level(name)
    except LabelTextError as error:
        raise refusal(str(error)) from None
    chosen = frozenset(level for level in Level if _OPERATORS[operator](level, bound))
    if not chosen:
        raise refusal(f"no level is `{value}`, so the rule could never apply")
    return chosen


def member(kind: str, members: Mapping[str, _E]) -> Callable[[object], _E]:
    """Return a reader of one of the words in `members`."""

    def read(value: object) -> _E:
        if isinstance(value, str) and value in members:
            return members[value]
        raise refusal(f"unknown {kind} `{value}`{nearest(str(value), members, ranked=True)}")

    return read


def one_of(kind: str, word: str, known: Collection[str]) -> str:
    """Read a name that must be among the known ones."""
    if word in known:
        return word
    raise refusal(f"unknown {kind} `{word}`{nearest(word, known)}")


def known_channel(word: str, known: Collection[str]) -> str:
    """Read the name of a channel that `channels` has; the policy knows no other."""
    if word in known:
        return word
    like = nearest(word, known)
    how = "" if "did you mean" in like else ", give it an entry under `policy.channels`"
    raise refusal(f"unknown channel `{word}`{like}{how}")


def is_name(value: str) -> bool:
    """Say whether something may be called so."""
    return bool(_NAME.match(value))


def place_channel(value: str, known: KnownNames) -> str:
    """Read the channel of a place for named recipients, or for several people."""
    if value == API:
        raise refusal(f"`{value}` has no chats: a program reads the answers of its own sessions, name another channel")
    return known_channel(value, known.channels)


def name(value: str) -> str:
    """Read the name of something the operator names."""
    if is_name(value):
        return value
    raise refusal(f"`{value}` is not a name, use up to 64 lower-case letters, digits, `_` and `-`")


def group(value: str, known: KnownNames) -> str:
    """Read the name of a group, which no person, role or compartment has."""
    for kind, names in (("principal", known.people), ("role", map(str, Role)), ("compartment", known.compartments)):
        if value in names:
            raise refusal(f"`{value}` is a {kind}, choose another name for the group")
    return name(value)


def member_of_group(value: str, known: KnownNames) -> str:
    """Read a member of a group."""
    return one_of("person or group", value, known.people | known.groups)


def acyclic(members: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse groups of which one contains itself, given the names of the members of each."""

    def follow(way: tuple[str, ...]) -> None:
        for one in members.get(way[-1], ()):
            if one in way:
                told = " → ".join(f"`{name}`" for name in (*way[way.index(one) :], one))
                raise refusal(f"a group is a member of itself, {told}, take one of these members out")
            if one not in done:
                follow((*way, one))
        done.add(way[-1])

    done = set[str]()
    for first in members:
        follow((first,))


def not_of_an_owner(value: _V | None, role: Role | None) -> _V | None:
    """Read the end of an access; `role` is None when it could not be read."""
    if value is not None and role is Role.OWNER:
        raise refusal("the access of an owner has no end, give them another role or leave `until` out")
    return value


def compartment(value: str) -> str:
    """Read the name of a compartment."""
    if labels.COMPARTMENT.match(value):
        return value
    raise refusal(f"`{value}` is not a compartment, use up to 32 lower-case letters, digits, `_` and `-`")


def any_account(value: str, known: KnownNames) -> str:
    """Read an account, `channel:user`, of a person or a program."""
    channel, _, user = value.partition(":")
    if not user:
        raise refusal(f"`{value}` is not an account, write one as `console:owner`")
    known_channel(channel, known.channels)
    return value


def account(value: str, known: KnownNames) -> str:
    """Read an account that only one principal may have, and that is not a program's."""
    any_account(value, known)
    if value.partition(":")[0] == API:
        raise refusal(f"`{value}` is a program's account, which `lockgate token create` makes, leave it out here")
    if ("account", value) in known.repeated:
        raise refusal(f"account `{value}` is given twice, it can belong to one principal only")
    return value


def server(value: str, known: KnownNames) -> str:
    """Read the name of a configured MCP server."""
    return one_of("MCP server", value, known.servers)


def folder(value: str) -> str:
    """Read the name of a folder directly under the file root."""
    if value == WORKSPACE:
        raise refusal(f"`{value}` is every session's own folder, choose another name")
    if value and "/" not in value and not value.startswith("."):
        return value
    raise refusal(f"`{value}` is not a folder, name one directly under the file root, without `/` or a leading dot")


def only_true(value: bool) -> bool:  # noqa: FBT001 - the value of a field
    """Read a switch that can be set but not unset."""
    if value:
        return value
    raise refusal("`false` would loosen the tool's declaration, leave the field out")


def listed_values(value: tuple[str, ...]) -> tuple[str, ...]:
    """Read a list of values that a bounded answer may name."""
    if not 1 <= len(value) <= MOST_LISTED or len(set(value)) < len(value):
        raise refusal(f"a list names from 1 to {MOST_LISTED} values, each once")
    if any(not 1 <= len(one) <= LONGEST_LISTED or not one.isprintable() for one in value):
        raise refusal(f"a value of a list has from 1 to {LONGEST_LISTED} printable characters")
    return value


def hold(value: object) -> Literal[True, "untrusted"]:
    """Read which results are kept out of the context."""
    if value is True:
        return True
    if value == "untrusted":
        return "untrusted"
    raise refusal("write `true` to hold all results, `untrusted` to hold the text of UNTRUSTED ones, or leave it out")


def listed_results(labels: Mapping[str, Label], result: Label | None) -> None:
    """Check the labels of results that an argument's values list: none is above the label of all others."""
    if result is None:
        raise refusal("`results` needs `result`, the label of the results for any other value")
    high = next((name for name, label in labels.items() if not label.within(result)), None)
    if high is not None:
        raise refusal(f"the label of `{high}` is above `result`, which counts for any other value")


def roles(value: tuple[Role, ...]) -> tuple[Role, ...]:
    """Read a list of roles."""
    if not value:
        raise refusal("an empty list names nobody, name a role or leave the list out")
    return value


def untrusted_content(tool: str, value: UntrustedContent, servers: Collection[str], trusted: frozenset[str]) -> None:
    """Check how a tool treats UNTRUSTED content; tools of the `trusted` servers return their text as TRUSTED."""
    owners = [server for server in servers if tool.startswith(f"{server}__")]
    if not owners:
        if tool not in DELIVERING:
            raise refusal(f"the content of `{tool}` keeps its label, leave `untrusted_content` out")
        if value is UntrustedContent.ALLOW:
            raise refusal(f"a text from outside that `{tool}` delivers is marked at least, use `mark` or `ask`")
    elif value is UntrustedContent.MARK:
        raise refusal(f"a server does not mark the texts that `{tool}` writes, use `ask` or `allow`")
    elif value is UntrustedContent.ALLOW and not trusted.isdisjoint(owners):
        raise refusal(
            f"texts that `{tool}` writes would come back as TRUSTED from its server, "
            "use `ask` or take away the server's `integrity: TRUSTED`"
        )


def pattern_name(value: str) -> str:
    """Read the name of a configured pattern."""
    if value in BUILT_IN_PATTERNS:
        raise refusal(f"`{value}` is a built-in pattern, choose another name")
    return name(value)


def pattern_text(value: str) -> str:
    """Read the RE2 text of a configured pattern."""
    wrong = fault(value)
    if wrong:
        raise refusal(f"`{value}` {wrong}")
    return value


def few(value: Mapping[str, str]) -> Mapping[str, str]:
    """Read the configured patterns together."""
    if len(value) > _MOST_PATTERNS:
        raise refusal(f"{len(value)} patterns are more than {_MOST_PATTERNS}, join some with `|`")
    flags = dict[str, str]()
    for pattern in (*BUILT_IN_PATTERNS, *value):
        other = flags.setdefault(flag(pattern), pattern)
        if other != pattern:
            raise refusal(f"`{other}` and `{pattern}` would both be `{flag(pattern)}` in conditions, rename one")
    return value


def rule_id(value: str, known: KnownNames) -> str:
    """Read a rule's id, which must be its own."""
    if value in FIXED_RULES:
        raise refusal(f"`{value}` is a fixed rule, choose another id")
    if ("rule", value) in known.repeated:
        raise refusal(f"rule id `{value}` is given twice, give each rule its own")
    return name(value)


def tool_globs(value: tuple[str, ...], known: KnownNames, hook: Hook | None) -> tuple[str, ...]:
    """Read a selector of tools; `hook` is None when the rule's hook could not be read."""
    if hook is not None and hook not in TOOL_HOOKS:
        raise refusal(f"no tool is called at hook `{hook}`, so the rule could never apply, leave `tools` out")
    return globs("tool", value, known.tools)


def action(value: Verdict, hook: Hook | None) -> Verdict:
    """Read a rule's action: people can be asked only about a call or an output."""
    if value is Verdict.REQUIRE_APPROVAL and hook is not None and hook not in _ASKING_HOOKS:
        raise refusal(f"nobody can be asked at hook `{hook}`, use `BLOCK` there")
    return value


def approvers(value: tuple[Role, ...], action: Verdict | None) -> tuple[Role, ...]:
    """Read the roles that may answer; `action` is None when it could not be read."""
    _only_for_approvals("approvers", action)
    return roles(value)


def approvers_among(value: tuple[str, ...] | None, known: KnownNames, action: Verdict | None) -> tuple[str, ...] | None:
    """Read the people and groups that may answer; `action` is None when it could not be read."""
    if value is None:
        return None
    _only_for_approvals("approvers_among", action)
    if not value:
        raise refusal("an empty list names nobody, name a person or a group or leave the list out")
    for one in value:
        one_of("person or group", one, known.people | known.groups)
    return value


def may_be_granted(value: object, action: Verdict | None) -> object:
    """Check that only a rule that asks people says whether a grant may answer it; `action` is None as above."""
    _only_for_approvals("may_be_granted", action)
    return value


def timeout(value: object, action: Verdict | None) -> int:
    """Read how long a question stands, in seconds; silence then means no."""
    _only_for_approvals("timeout", action)
    match = _DURATION.match(value) if isinstance(value, str) else None
    if match is None:
        raise refusal(f"`{value}` is not a time, write one as `30s`, `10m`, `2h` or `1d`")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > _LONGEST_TIMEOUT:
        raise refusal(f"`{value}` is longer than a question may stand, which is `7d`")
    return seconds


def _only_for_approvals(field: str, action: Verdict | None) -> None:
    if action is not None and action is not Verdict.REQUIRE_APPROVAL:
        raise refusal(f"only `REQUIRE_APPROVAL` asks people, leave `{field}` out")


def globs(kind: str, value: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    """Read a selector of names: at least one glob, each matching something there is."""
    if not value:
        raise refusal(f"an empty list selects nothing, name a {kind} or leave the list out")
    for glob in value:
        if not any(fnmatchcase(word, glob) for word in known):
            raise refusal(f"no {kind} matches `{glob}`{nearest(glob, known)}")
    return value


def pattern(value: str | None, known: KnownNames, hook: Hook | None, action: Verdict | None) -> str | None:
    """Read a rule's pattern; `hook` and `action` are None when they could not be read."""
    if value is None:
        if action is Verdict.REDACT:
            raise refusal(f"`REDACT` has nothing to replace, give a `pattern`{nearest('', known.patterns)}")
        return None
    if hook is not None and hook not in CONTENT_HOOKS:
        raise refusal(f"there is no content at hook `{hook}`, so the rule could never apply, leave `pattern` out")
    return one_of("pattern", value, known.patterns)
