"""Hypothesis strategies for the policy core's values; small alphabets, so that things collide."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import cast
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from policy.conditions.expressions import INT, Expression, check
from policy.conditions.schedule import WeeklyWindow
from policy.conditions.variables import CALL_HOOKS, CONTENT_HOOKS, Facts, at
from policy.decision import Verdict
from policy.engine import Engine
from policy.labels import PUBLIC, Integrity, Label, Level, top
from policy.redaction.redactor import Redactor
from policy.request import (
    ArgumentRole,
    Destination,
    Effect,
    Hook,
    Others,
    Request,
    Role,
    RunState,
    Secret,
    SteeredRole,
    ToolFacts,
)
from policy.rules import Rule

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
COMPARTMENTS = ("acme", "hr")
TOP = top(COMPARTMENTS)
TOOLS = ("read_file", "write_file", "message")
CHANNELS = ("console", "telegram")
REDACTOR = Redactor({"canary": "canary[0-9]*"})
CONTENTS = ("", "nothing here", "a canary7 sings", "ssn 536-90-4399", "canary and 536-90-4399 \ud800")


ARGUMENTS = {"amount": INT}
CONDITIONS = (
    "taint_level >= CONFIDENTIAL",
    'role == "owner" || taint_untrusted',
    '!("hr" in taint_compartments) && role != "guest"',
    "size(taint_compartments) + 1 > 2 && taint_untrusted",
    "has_us_ssn || has_canary",
    "has_canary && destination_shared",
    'tool_name.startsWith("read") || role in ["guest", "stranger"]',
    "arg_amount > 100",
    "100 / arg_amount > 3",
    "taint_untrusted && 100 % arg_amount == 0",
    'asker == "ann" && asker_role in ["member", "guest"]',
    '"member" in other_roles || arg_amount > 100',
)
MOMENTS = (
    NOW,
    datetime(2030, 1, 6, 23, 30, tzinfo=UTC),
    datetime(2030, 3, 31, 0, 59, tzinfo=UTC),
    datetime(2030, 3, 31, 1, 1, tzinfo=UTC),
    datetime(2030, 10, 27, 0, 30, tzinfo=UTC),
    datetime(2030, 10, 27, 1, 30, tzinfo=UTC),
)


def condition(text: str, hook: Hook) -> Expression | None:
    """Return a condition checked for a hook, None if it names what is not known there."""
    known = at(hook, REDACTOR.names, ARGUMENTS)
    return None if any(f"{name}_" in text for name in _ABSENT[hook]) else check(text, known)


def engine(*rules: Rule) -> Engine:
    """Return an engine with these rules over the compartments above."""
    return Engine.build(rules, top=TOP, redactor=REDACTOR, digest="test")


_ABSENT = {
    hook: [
        *(["has"] if hook not in CONTENT_HOOKS else []),
        *(["arg"] if hook not in CALL_HOOKS else []),
        *(["destination"] if hook is not Hook.PRE_OUTPUT else []),
        *(["tool"] if "tool_name" not in at(hook, (), {}) else []),
        *(name.partition("_")[0] for name in ("asker_role", "other_roles") if name not in at(hook, (), {})),
    ]
    for hook in Hook
}

labels = st.builds(
    Label,
    level=st.sampled_from(Level),
    compartments=st.frozensets(st.sampled_from(COMPARTMENTS)),
    integrity=st.sampled_from(Integrity),
)
maybe_labels = st.none() | labels
tools = st.builds(
    ToolFacts,
    name=st.sampled_from((*TOOLS, "unheard_of", "x" * 300, "session_initialize", "session_get_state")),
    effect=st.sampled_from(Effect),
    result=maybe_labels,
    clearance=maybe_labels,
    consequential=st.booleans(),
    server=st.sampled_from(("", "", "notes")),
    roles=st.none() | st.frozensets(st.sampled_from(Role)),
    asks=st.booleans(),
    raises=st.just(PUBLIC) | labels,
    shows=st.booleans(),
    spared=st.booleans(),
)
others = st.builds(
    Others,
    clearance=st.just(TOP) | labels,
    roles=st.frozensets(st.sampled_from(Role), min_size=1, max_size=3),
)
steered = st.just(()) | st.lists(
    st.builds(SteeredRole, role=st.none() | st.sampled_from(ArgumentRole), outside=st.booleans()), max_size=3
).map(tuple)
run_states = st.builds(RunState, initialized=st.booleans(), stopped=st.booleans(), paused=st.booleans())
destinations = st.builds(
    Destination,
    address=st.just("somewhere"),
    channel=st.sampled_from((*CHANNELS, "unheard_of")),
    clearance=maybe_labels,
    shared=st.booleans(),
    readers=maybe_labels,
    vouched=maybe_labels,
    raised=maybe_labels,
)


def requests(
    hook: st.SearchStrategy[Hook] = st.sampled_from(Hook),  # noqa: B008 - strategies are values
    content: st.SearchStrategy[str] = st.sampled_from(CONTENTS),  # noqa: B008
) -> st.SearchStrategy[Request]:
    """Return requests of every kind; wide clearances are frequent, so that not everything is blocked."""
    wide = st.just(TOP) | labels
    return st.builds(
        Request,
        hook=hook,
        principal=st.just("owner"),
        role=st.sampled_from(Role),
        channel=st.sampled_from(CHANNELS),
        taint=labels,
        ceiling=wide,
        provider=wide,
        home=wide,
        item=maybe_labels,
        tool=st.none() | tools,
        destination=st.none() | destinations,
        secret=st.none() | st.builds(Secret, name=st.just("key"), granted=st.booleans()),
        content=content,
        arguments=st.sampled_from(((), (("amount", 0),), (("amount", 40),), (("amount", 200),), (("amount", None),))),
        overshoot=st.sampled_from(("allow", "ask", "block")),
        approved=st.booleans(),
        confirmed=st.booleans(),
        released=st.sampled_from(("", "", "ann")),
        releasable=st.booleans(),
        held=st.booleans(),
        carried=st.just(PUBLIC) | labels,
        steered=steered,
        quotes=st.booleans(),
        fresh=st.just(PUBLIC) | labels,
        lowered=maybe_labels,
        home_readers=maybe_labels,
        home_vouched=maybe_labels,
        sink=st.none() | destinations,
        asker=st.sampled_from(("owner", "ann")),
        asker_role=st.sampled_from(Role),
        others=st.none() | others,
        run=st.none() | run_states,
    )


moments = st.sampled_from(MOMENTS) | st.datetimes(timezones=st.just(UTC))
schedules = st.builds(
    WeeklyWindow,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    start=st.sampled_from((0, 90, 18 * 60)),
    stop=st.sampled_from((1, 8 * 60, 150, 24 * 60)),
    zone=st.sampled_from((ZoneInfo("UTC"), ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata"))),
)


def long_text(facts: Facts, _now: datetime) -> bool:
    return len(facts.request.content) >= 15


def raising(_facts: Facts, _now: datetime) -> bool:
    raise OSError("a test that fails")


def unclear(_facts: Facts, _now: datetime) -> bool:
    return cast("bool", 1)


# Made once: to make a strategy anew for each draw takes longer than to draw from it.
_ACTIONS = st.sampled_from((Verdict.BLOCK, Verdict.REQUIRE_APPROVAL, Verdict.REDACT))
_PATTERNS = st.sampled_from(("canary", "us-ssn"))
_MAYBE_PATTERNS = st.none() | _PATTERNS
_HOOKS = st.sampled_from(Hook)
_TOOLS = st.sampled_from(((), ("message",), ("*_file",), ("message", "read_*"), ("x*",)))
_CHANNELS = st.sampled_from(((), ("console",), ("t*",)))
_LEVELS = st.just(frozenset(Level)) | st.frozensets(st.sampled_from(Level), min_size=1)
_UNTRUSTED = st.sampled_from((None, None, True, False))
_SCHEDULES = st.none() | schedules
_CONDITIONS = {hook: st.none() | st.sampled_from([condition(text, hook) for text in CONDITIONS]) for hook in Hook}
_TESTS = st.sampled_from((None, None, None, long_text, raising, unclear))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Return a configured rule as a valid document would give it, but for its id."""
    action = draw(_ACTIONS)
    hook = draw(_HOOKS)
    return Rule(
        id="rule",
        hook=hook,
        action=action,
        tools=draw(_TOOLS),
        channels=draw(_CHANNELS),
        levels=draw(_LEVELS),
        untrusted=draw(_UNTRUSTED),
        pattern=draw(_PATTERNS if action is Verdict.REDACT else _MAYBE_PATTERNS),
        schedule=draw(_SCHEDULES),
        when=draw(_CONDITIONS[hook]),
        test=draw(_TESTS),
    )


def rule_sets(most: int = 6) -> st.SearchStrategy[tuple[Rule, ...]]:
    """Return a few rules with distinct ids."""
    return st.lists(rules(), max_size=most).map(_numbered)


def _numbered(found: list[Rule]) -> tuple[Rule, ...]:
    return tuple(with_id(rule, f"rule-{number}") for number, rule in enumerate(found))


def with_id(rule: Rule, name: str) -> Rule:
    """Return the rule under another id."""
    return replace(rule, id=name)
