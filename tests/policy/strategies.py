"""Hypothesis strategies for the policy core's values; small alphabets, so that things collide."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from policy.decision import Verdict
from policy.engine import Engine
from policy.labels import Integrity, Label, Level, top
from policy.redact import Redactor
from policy.request import Destination, Effect, Hook, Request, Role, Tool
from policy.rules import Rule

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
COMPARTMENTS = ("acme", "hr")
TOP = top(COMPARTMENTS)
TOOLS = ("read_file", "write_file", "message")
CHANNELS = ("console", "telegram")
REDACTOR = Redactor({"canary": "canary[0-9]*"})
CONTENTS = ("", "nothing here", "a canary7 sings", "ssn 536-90-4399", "canary and 536-90-4399 \ud800")


def engine(*rules: Rule) -> Engine:
    """Return an engine with these rules over the compartments above."""
    return Engine.build(rules, top=TOP, redactor=REDACTOR, digest="test")


labels = st.builds(
    Label,
    level=st.sampled_from(Level),
    compartments=st.frozensets(st.sampled_from(COMPARTMENTS)),
    integrity=st.sampled_from(Integrity),
)
maybe_labels = st.none() | labels
tools = st.builds(
    Tool,
    name=st.sampled_from((*TOOLS, "unheard_of", "x" * 300)),
    effect=st.sampled_from(Effect),
    result=maybe_labels,
    clearance=maybe_labels,
    consequential=st.booleans(),
)
destinations = st.builds(
    Destination,
    address=st.just("somewhere"),
    channel=st.sampled_from((*CHANNELS, "unheard_of")),
    clearance=maybe_labels,
    shared=st.booleans(),
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
        content=content,
        overshoot=st.sampled_from(("allow", "block")),
        approved=st.booleans(),
        confirmed=st.booleans(),
    )


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Return a configured rule as a valid document would give it, but for its id."""
    action = draw(st.sampled_from((Verdict.BLOCK, Verdict.REQUIRE_APPROVAL, Verdict.REDACT)))
    patterns = st.sampled_from(("canary", "us-ssn"))
    return Rule(
        id="rule",
        hook=draw(st.sampled_from(Hook)),
        action=action,
        tools=draw(st.sampled_from(((), ("message",), ("*_file",), ("message", "read_*"), ("x*",)))),
        channels=draw(st.sampled_from(((), ("console",), ("t*",)))),
        levels=draw(st.just(frozenset(Level)) | st.frozensets(st.sampled_from(Level), min_size=1)),
        untrusted=draw(st.sampled_from((None, None, True, False))),
        pattern=draw(patterns if action is Verdict.REDACT else st.none() | patterns),
    )


@st.composite
def rule_sets(draw: st.DrawFn, most: int = 6) -> tuple[Rule, ...]:
    """Return a few rules with distinct ids."""
    drawn = draw(st.lists(rules(), max_size=most))
    return tuple(with_id(rule, f"rule-{number}") for number, rule in enumerate(drawn))


def with_id(rule: Rule, name: str) -> Rule:
    """Return the rule under another id."""
    return Rule(
        name,
        rule.hook,
        rule.action,
        rule.message,
        rule.tools,
        rule.channels,
        rule.levels,
        rule.untrusted,
        rule.pattern,
        rule.conditions,
    )
