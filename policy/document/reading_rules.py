"""How a rule's condition and schedule are read; `policy.document.reading` has the rest.

Every fault is refused with one sentence for the operator, never left out. A rule read only in part would do less than
its author believes.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from policy.conditions import variables
from policy.conditions.expressions import Expression, check
from policy.conditions.schedule import DAY_MINUTES, DAYS, WeeklyWindow, clock
from policy.decision import Verdict
from policy.document import reading
from policy.document.reading import KnownNames, refusal
from policy.errors import ExpressionError, nearest
from policy.fixed import RESERVED as FIXED_RULES
from policy.labels import Level
from policy.request import Hook
from policy.rules import Rule

_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\Z", re.ASCII)
_WORD: Final = re.compile(r"\w+\Z", re.ASCII)
_OTHER: Final = re.compile(r"\W", re.ASCII)
_FIELDS: Final = ("days", "from", "to", "zone")


def _each(kind: type, of: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind) and all(isinstance(one, of) for one in cast("Iterable[object]", value))


def _or_none(kind: type) -> Callable[[object], bool]:
    return lambda value: value is None or isinstance(value, kind)


_TYPED: Final[tuple[tuple[str, Callable[[object], bool], str], ...]] = (
    ("id", lambda value: isinstance(value, str), "a text"),
    ("hook", lambda value: isinstance(value, Hook), "a `Hook`"),
    ("action", lambda value: isinstance(value, Verdict), "a `Verdict`"),
    ("message", lambda value: isinstance(value, str), "a text"),
    ("tools", _each(tuple, str), "a tuple of texts"),
    ("channels", _each(tuple, str), "a tuple of texts"),
    ("levels", lambda value: bool(value) and _each(frozenset, Level)(value), "a frozenset of at least one `Level`"),
    ("untrusted", _or_none(bool), "`True`, `False` or `None`"),
    ("pattern", _or_none(str), "a text"),
    ("schedule", _or_none(WeeklyWindow), "a `WeeklyWindow`"),
    ("when", _or_none(Expression), "an `Expression`"),
    ("test", lambda value: value is None or callable(value), "a function"),
    ("log_only", lambda value: isinstance(value, bool), "`True` or `False`"),
)
"""The fields of a plugin's rule. A hook or a level that is only a text would never match, and the rule never apply."""


def applied(rule: Mapping[object, object]) -> None:
    """Check that the entry of a rule does not set a fixed rule to `log_only`.

    Raises ValueError: it does, as if a law could be switched off.
    """
    if "log_only" in rule and rule.get("id") in FIXED_RULES:
        raise refusal(f"`{rule['id']}` is a fixed rule and always applies, only a rule of your own can be `log_only`")


def code_rule(rule: Rule, known: KnownNames, taken: Collection[str]) -> None:
    """Check a rule that a plugin made, as one in a file is checked; ids in `taken` are those of other rules.

    Raises ValueError: it cannot be in force.
    """
    for field, fits, meant in _TYPED:
        if not fits(getattr(rule, field)):
            raise refusal(f"its `{field}` is not {meant}, so it might never apply")
    reading.rule_id(rule.id, known)
    if rule.id in taken:
        raise refusal(f"rule id `{rule.id}` is given twice, give each rule its own")
    if rule.action is Verdict.ALLOW:
        raise refusal("a rule can only tighten, its action is `BLOCK`, `REQUIRE_APPROVAL` or `REDACT`")
    reading.action(rule.action, rule.hook)
    reading.pattern(rule.pattern, known, rule.hook, rule.action)
    if rule.tools:
        reading.tool_globs(rule.tools, known, rule.hook)
    if rule.channels:
        reading.globs("channel", rule.channels, known.channels)
    if rule.when is not None:
        usable = variables.at(rule.hook, known.patterns, _arguments(known, rule.hook, rule.tools)[0])
        for name, kind in rule.when.variables:
            if usable.get(name) != kind:
                raise refusal(f"`{name}` of its condition is not known at hook `{rule.hook}`")


def when(value: object, known: KnownNames, hook: Hook | None, tools: tuple[str, ...] | None) -> Expression | None:
    """Read a condition; `hook` and `tools` are None when they could not be read, and then it cannot be either."""
    if value is None or hook is None or tools is None:
        return None
    if not isinstance(value, str):
        raise refusal(f"`{value}` is not a condition, write one in quotes")
    arguments, missing = _arguments(known, hook, tools)
    try:
        return check(
            value,
            variables.at(hook, known.patterns, arguments),
            variables.elsewhere(hook, known.patterns) | missing,
        )
    except ExpressionError as error:
        raise refusal(str(error)) from None


def _arguments(known: KnownNames, hook: Hook, tools: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the arguments a condition may look at, with their types, and why it may not look at others."""
    usable, why = dict[str, str](), dict[str, str]()
    kinds = dict[str, set[str]]()
    for tool, arguments in sorted(known.arguments.items()):
        for name, kind in arguments.items():
            word = f"{variables.ARG}{name}"
            if not _WORD.match(name):
                why[_OTHER.sub("_", word)] = f"`{name}` of `{tool}` cannot be named in a condition, a pattern sees it"
            elif hook not in variables.CALL_HOOKS:
                why[word] = f"`{word}` is not known at hook `{hook}`, it is at `{Hook.PRE_TOOL_CALL}`"
            elif any(fnmatchcase(tool, glob) for glob in tools):
                kinds.setdefault(name, set()).add(kind)
            else:
                why.setdefault(word, f"`{word}` is an argument of `{tool}`, name that tool under `tools`")
    for name, found in kinds.items():
        word = f"{variables.ARG}{name}"
        if len(found) > 1:
            why[word] = f"`{word}` is a {' in one tool and a '.join(sorted(found))} in another, write a rule for each"
        elif found <= variables.ABSENT.keys():
            usable[name] = found.pop()
        else:
            why[word] = f"`{word}` cannot be looked at, it is neither text nor number nor list of texts"
    return usable, why


def schedule(value: object) -> WeeklyWindow | None:
    """Read a schedule: a mapping of `days`, `from`, `to` and `zone`, of which the zone must be given."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise refusal(f"`{value}` is not a schedule, give `days`, `from`, `to` and `zone`")
    fields = cast("Mapping[object, object]", value)
    for field in fields:
        if field not in _FIELDS:
            raise refusal(f"unknown field `{field}` in `schedule`{nearest(str(field), _FIELDS)}")
    if "zone" not in fields:
        raise refusal("a schedule needs a `zone`, such as `Europe/Berlin` or `UTC`")
    start, stop = _minute(fields.get("from", "00:00")), _minute(fields.get("to", "24:00"))
    if start == DAY_MINUTES:
        raise refusal("a window begins before `24:00`, write `00:00` and the day after")
    if start == stop:
        raise refusal(f"from `{clock(start)}` to `{clock(stop)}` is no time at all, leave both out for whole days")
    days = _days(fields.get("days", list(DAYS)))
    if (start, stop, len(days)) == (0, DAY_MINUTES, len(DAYS)):
        raise refusal("this schedule holds always, give `days` or `from` and `to`, or leave it out")
    return WeeklyWindow(days, start, stop, zone(fields["zone"]))


def _minute(value: object) -> int:
    if value == "24:00":
        return DAY_MINUTES
    match = _TIME.match(value) if isinstance(value, str) else None
    if match is None:
        raise refusal(f"`{value}` is not a time of day, write one as `18:00`, in quotes")
    return int(match[1]) * 60 + int(match[2])


def _days(value: object) -> frozenset[int]:
    if not isinstance(value, list) or not value:
        raise refusal(f"`days` must be a list such as `[{DAYS[0]}, {DAYS[1]}]`")
    for day in cast("list[object]", value):
        if day not in DAYS:
            raise refusal(f"unknown day `{day}`{nearest(str(day), DAYS, ranked=True)}")
    return frozenset(DAYS.index(str(day)) for day in cast("list[object]", value))


def zone(value: object) -> ZoneInfo:
    """Read the name of a time zone. Raises ValueError: there is none of that name."""
    try:
        return ZoneInfo(str(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zones = available_timezones()
        close = nearest(str(value), zones)
        # The list of all zones would be no help.
        raise refusal(f"unknown time zone `{value}`{close if 'did you mean' in close else ''}") from None
