"""Law 9 with grants: in every order of calls, revocations and time, nothing outside the shown scope is unasked.

The gate is asked directly, with grants of random scopes, and compared with a slow reading of a scope that shares no
code with it. The store's part, that a use is spent once and a revoked grant covers nothing, is in `tests/store`.
"""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.access.decision_context import Call
from bot.sessions.approvals import Approval
from bot.sessions.consents.grants import Grant, GrantEnd
from policy.decision import Verdict
from policy.labels import Label, parse
from tests.bot.granting import Pay, granted, pay
from tests.bot.kit import DIRTY, NOW, document, gate, standing
from tests.people import principal

_PEOPLE = {
    "owner": principal("console:owner"),
    "ada": principal("console:ada", role="approver", clearance="INTERNAL~"),
    "mel": principal("console:mel", role="member", clearance="top"),
}
_GATES = {
    description: gate([Pay(replace(Pay().declared, clearance=parse("RESTRICTED{hr}~")), description)], policy)
    for policy in (document(principals=_PEOPLE, compartments=["hr"]),)
    for description in ("Pay a person.", "Pay.")
}

_arguments = st.fixed_dictionaries(
    {},
    optional={
        "to": st.sampled_from(("ann", "bob", "")),
        "amount": st.sampled_from((None, 0, 1, 5.5, 100, 101, -1, True, 10**30)),
        "file": st.sampled_from(
            ("", "a", "x/a", "x/b", "x/y/a", "x/../a", "x/../b", "x//a", "x//b", "./a", "x/", "/a", "x\\a/b")
        ),
        "plain": st.sampled_from((None, "eur", "usd", "")),
        "text": st.sampled_from((None, "", "one", "two")),
        "lines": st.sampled_from(([], [{"n": 1}], [{"n": 2}], [{"m": 1}], [{"n": 1}, {"n": 1}], [{"n": "1"}])),
    },
)
_labels = st.sampled_from(tuple(map(parse, ("PUBLIC~", "INTERNAL~", "PUBLIC{hr}~", "PUBLIC"))))


@dataclass(frozen=True)
class _Step:
    """One thing that happens: a call, or a change of the world before it."""

    call: dict[str, JsonValue]
    id: str
    taint: Label
    asker: str
    tool: str
    passes: int
    revokes: bool


_steps = st.builds(
    _Step,
    _arguments,
    st.sampled_from(("c1", "c2", "c3", "c4")),
    _labels,
    st.sampled_from(("owner", "owner", "mel")),
    st.sampled_from(("Pay a person.", "Pay a person.", "Pay a person.", "Pay.")),
    st.integers(0, 3),
    st.sampled_from((False, False, False, True)),
)


def _read(value: JsonValue, shown: JsonValue, name: str) -> bool:
    """Say, by the words of the question, whether a value is within what was shown."""
    if name == "text":
        return (value is None) == (shown is None)
    if type(shown) in {int, float} and name in {"amount", "n", "m"} and isinstance(shown, int | float) and shown >= 0:
        return type(value) in {int, float} and isinstance(value, int | float) and 0 <= value <= shown
    if name == "file" and isinstance(shown, str) and isinstance(value, str):
        parts, others = shown.split("/"), value.split("/")
        plain = all(part not in {"", ".", ".."} and "\\" not in part for part in (*parts, *others))
        if len(parts) > 1 and plain:
            return parts[:-1] == others[:-1]
    if isinstance(shown, list) and isinstance(value, list):
        return len(value) == len(shown) and all(_inside(one, two) for one, two in zip(value, shown, strict=True))
    return type(value) is type(shown) and value == shown


def _inside(value: JsonValue, shown: JsonValue) -> bool:
    assert isinstance(value, dict)
    assert isinstance(shown, dict)
    return value.keys() == shown.keys() and all(_read(value[name], shown[name], name) for name in shown)


_ABSENT: dict[str, JsonValue] = {"to": "", "amount": None, "file": "", "plain": None, "text": None, "lines": []}


@settings(max_examples=150, deadline=None)
@given(_arguments, st.integers(1, 4), st.integers(1, 6), st.sampled_from(("owner", "ada", "mel")), st.lists(_steps))
def test_untrusted_cannot_command_beyond_the_scope_of_a_grant(
    shown: dict[str, JsonValue], uses: int, lasts: int, giver: str, steps: list[_Step]
) -> None:
    keeper = _GATES["Pay a person."]
    here = standing(DIRTY)
    if keeper.calls.prepare(here, Call("c0", "pay", shown)).scope is None:
        return
    grant = granted(keeper, Call("c0", "pay", shown), grant=Grant(NOW + lasts, uses), by=giver)
    now, covered = NOW, set[str]()
    for step in steps:
        now += step.passes
        if step.revokes:
            grant = _with(grant, replace(_given(grant), end=GrantEnd.REVOKED))
        there = replace(here, taint=step.taint, asker=step.asker, now=now, grants=(grant,))
        made = _GATES[step.tool].calls.prepare(there, Call(step.id, "pay", step.call))
        if step.taint == parse("PUBLIC"):
            assert made.grant is None, "nothing asked"
            continue
        inside = (
            _inside({**_ABSENT, **step.call}, {**_ABSENT, **shown})
            and step.taint == DIRTY
            and step.asker == "owner"
            and step.tool == "Pay a person."
            and giver != "mel"
            and now < NOW + lasts
            and _counts(grant, step.id)
        )
        assert (made.decision.verdict is Verdict.ALLOW) == inside == (made.grant is not None)
        if made.grant is not None:
            covered.add(step.id)
            grant = _with(grant, _given(grant).used_by(step.id))
    assert len(covered) <= uses


def _given(approval: Approval) -> Grant:
    assert approval.grant is not None
    return approval.grant


def _with(approval: Approval, grant: Grant) -> Approval:
    return replace(approval, grant=grant)


def _counts(approval: Approval, call: str) -> bool:
    grant = _given(approval)
    return grant.end is None and (call in grant.spent or len(grant.spent) < len(grant.spent) + grant.left)


@given(st.permutations(range(3)), st.lists(_arguments, min_size=1, max_size=3))
def test_the_order_of_grants_changes_nothing(order: list[int], asked: list[dict[str, JsonValue]]) -> None:
    keeper, here = _GATES["Pay a person."], standing(DIRTY)
    shown = (pay("a"), pay("b", to="bob"), pay("c", amount=1))
    grants = tuple(granted(keeper, one, name=one.id) for one in shown)
    for given_now in asked:
        call = Call("c9", "pay", given_now)
        one = keeper.calls.prepare(replace(here, grants=grants), call).decision
        two = keeper.calls.prepare(replace(here, grants=tuple(grants[place] for place in order)), call).decision
        assert one.verdict is two.verdict
