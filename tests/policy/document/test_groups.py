"""A group is the union of its members in every place; memberships and accesses end at their moment."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.document.groups import moments, policy_at
from policy.document.model import Document, load
from policy.document.overrides import Overrides, Person
from policy.errors import DocumentError
from policy.labels import parse
from policy.request import Role
from tests.people import principal

PEOPLE = ("ann", "ben", "cat")
GROUPS = ("one", "three", "two")
NOW = datetime(2030, 1, 7, 12, tzinfo=UTC)
BEFORE, AFTER = "2030-01-07T11:59Z", "2030-01-07T12:01Z"
RANK = tuple(Role)


def policy(groups: Mapping[str, object], **more: object) -> Document:
    people = {name: principal(f"console:{name}", role="guest", clearance="PUBLIC") for name in PEOPLE}
    return load(
        {
            "compartments": ["acme", "hr"],
            "principals": {"owner": principal("console:owner"), **people},
            "groups": groups,
            **more,
        },
        tools=("t",),
    )


def now(document: Document, *, at: datetime = NOW, overrides: Overrides | None = None) -> Document:
    return policy_at(document, overrides or Overrides(), at)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, dict[str, object]]:
    """Draw groups without a cycle: each may contain those that were drawn before it."""
    made = dict[str, dict[str, object]]()
    for name in draw(st.permutations(GROUPS)):
        members = draw(st.lists(st.sampled_from((*PEOPLE, *made)), max_size=4))
        ends = st.sampled_from((None, None, BEFORE, AFTER))
        made[name] = {
            "members": [{"name": one, "until": draw(ends)} for one in members],
            "role": draw(st.sampled_from((None, "member", "approver", "admin"))),
            "clearance": draw(st.sampled_from((None, "INTERNAL", "CONFIDENTIAL{hr}", "PUBLIC{acme}"))),
            "may_release": draw(st.booleans()),
        }
    return made


def reached(groups: Mapping[str, Mapping[str, object]], person: str) -> set[str]:
    """Return a person's groups by a second reading: walk upwards from the person until nothing new is found."""
    found, size = {person}, 0
    while len(found) > size:
        size = len(found)
        for name, group in groups.items():
            members = cast("list[dict[str, object]]", group["members"])
            if any(one["name"] in found and one["until"] != BEFORE for one in members):
                found.add(name)
    return found - {person}


@given(documents())
def test_a_group_is_the_union_of_its_members_in_every_place(groups: dict[str, dict[str, object]]) -> None:
    """Each person has the grants that a second reading of the groups finds, in rules too."""
    asking = {"hook": "PRE_TOOL_CALL", "action": "REQUIRE_APPROVAL"}
    document = now(policy(groups, rules=[{"id": name, "approvers_among": [name], **asking} for name in GROUPS]))
    for person in PEOPLE:
        mine = reached(groups, person)
        assert document.groups_of(person) == mine
        expected, role, releases = parse("PUBLIC"), Role.GUEST, False
        for name in mine:
            given_label, given_role = groups[name]["clearance"], groups[name]["role"]
            expected = expected.join(parse(str(given_label))) if given_label else expected
            role = min(role, Role(str(given_role)), key=RANK.index) if given_role else role
            releases = releases or bool(groups[name]["may_release"])
        entry = document.principals[person]
        assert (entry.clearance, entry.role, entry.may_release) == (expected, role, releases)
        assert document.may_release(person) == releases
    for name in GROUPS:
        named = [person for person in PEOPLE if name in reached(groups, person)]
        for person in PEOPLE:
            assert document.is_among_approvers(name, person) == (person in named)


def test_a_document_of_a_file_alone_has_no_memberships() -> None:
    """A place that forgets to ask for the policy of a moment gives nobody a right."""
    document = policy({"one": {"members": ["ann"], "clearance": "INTERNAL"}})
    assert document.groups_of("ann") == frozenset()
    assert str(document.principals["ann"].clearance) == "PUBLIC"
    assert now(document).digest != document.digest


def ended(name: str, until: str, **more: object) -> Document:
    people = {
        "owner": principal("console:owner"),
        name: {**principal(f"console:{name}", role="member"), "until": until},
    }
    return load({"principals": people, **more}, tools=())


def test_access_ends_at_its_moment() -> None:
    document = ended("ann", "2030-01-07T12:00Z")
    assert list(moments(document)) == [NOW]
    assert "ann" in now(document, at=NOW - timedelta(milliseconds=1)).principals
    over = now(document)
    assert "ann" not in over.principals
    assert over.principal("console:ann") is None
    assert over == now(ended("ann", BEFORE)).model_copy()
    assert now(document, at=NOW - timedelta(days=1)) is document


def test_nobody_gets_the_name_or_account_of_a_person_whose_access_ended() -> None:
    document = ended("ann", BEFORE, paired={"role": "admin", "clearance": "top"})
    for name in ("ann", "other"):
        person = Person(Role.ADMIN, None, frozenset({"console:ann", "console:x"}))
        over = now(document, overrides=Overrides({name: person}))
        assert over.principal("console:ann") is None, name
        assert "ann" not in over.principals
    assert over.principal("console:x") is not None


def test_a_change_lowers_the_grants_of_groups_and_takes_no_groups_name() -> None:
    document = policy(
        {"one": {"members": ["ann"], "clearance": "CONFIDENTIAL{hr}", "role": "admin"}},
        paired={"role": "member", "clearance": "INTERNAL"},
    )
    lowered = now(document, overrides=Overrides({"ann": Person(Role.MEMBER, parse("INTERNAL"))})).principals["ann"]
    assert (lowered.role, str(lowered.clearance)) == (Role.MEMBER, "INTERNAL")
    taken = now(document, overrides=Overrides({"one": Person(accounts=frozenset({"console:x"}))}))
    assert "one" not in taken.principals


@pytest.mark.parametrize(
    "groups, told",
    [
        ({"ann": {"members": []}}, "`ann` is a principal, choose another name for the group"),
        ({"hr": {"members": []}}, "`hr` is a compartment, choose another name for the group"),
        ({"admin": {"members": []}}, "`admin` is a role, choose another name for the group"),
        ({"A": {"members": []}}, "`A` is not a name"),
        ({"one": {"members": ["an"]}}, "unknown person or group `an`, did you mean `ann`?"),
        ({"one": {"members": ["one"]}}, "`one` → `one`, take one of these members out"),
        (
            {"one": {"members": ["two"]}, "two": {"members": ["one"]}},
            "a group is a member of itself, `one` → `two` → `one`",
        ),
        ({"one": {"members": "ann"}}, "`ann` is not a list"),
        ({"one": {"members": [{"name": "ann", "unti": "2030-01-01"}]}}, "unknown field `unti`, did you mean `until`?"),
        ({"one": {"members": [], "rol": "admin"}}, "unknown field `rol`, did you mean `role`?"),
        ({"one": {"members": [], "role": "owner"}}, "unknown role `owner`"),
        ({"one": {}}, "`members` is missing, add it"),
        ({"one": {"members": [], "clearance": "INTERNAL{h}"}}, "unknown compartment `h`"),
    ],
)
def test_a_faulty_group_is_an_error_with_its_next_step(groups: dict[str, object], told: str) -> None:
    with pytest.raises(DocumentError) as refused:
        policy(groups)
    assert told in str(refused.value)


def test_owners_have_no_end_and_rules_name_known_people() -> None:
    with pytest.raises(DocumentError, match="the access of an owner has no end"):
        load({"principals": {"owner": {**principal("console:owner"), "until": BEFORE}}}, tools=())
    asking = {"id": "a", "hook": "PRE_TOOL_CALL", "action": "REQUIRE_APPROVAL"}
    with pytest.raises(DocumentError, match="unknown person or group `bem`, did you mean `ben`"):
        policy({}, rules=[{**asking, "approvers_among": ["bem"]}])
    asks_all = policy({}, rules=[{**asking, "approvers_among": None}])
    assert next(rule for rule in asks_all.rules if rule.id == "a").approvers_among is None
    with pytest.raises(DocumentError, match="an empty list names nobody"):
        policy({}, rules=[{**asking, "approvers_among": list[str]()}])
    with pytest.raises(DocumentError, match="only `REQUIRE_APPROVAL` asks people, leave `approvers_among` out"):
        policy({}, rules=[{**asking, "action": "BLOCK", "approvers_among": ["ben"]}])
