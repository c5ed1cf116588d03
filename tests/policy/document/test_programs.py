"""Programs are added to the principals and change nothing else; what the file does not fit is void."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.document.model import Document, load
from policy.document.overrides import AccessChange, ChatPlace, Overrides, Person, Placing, in_force
from policy.document.programs import Program, is_program, program_name, with_programs
from policy.errors import DocumentError
from policy.labels import Integrity, Label, Level, parse
from policy.request import Role
from tests.people import principal

CHANNELS: Mapping[str, object] = {
    "console": {"classification": "top"},
    "chat": {"classification": "INTERNAL"},
    "api": {"classification": "CONFIDENTIAL{hr}"},
}


def policy(**more: object) -> Document:
    """Return a file's policy with an owner, a channel for programs and a ceiling for whoever is let in."""
    return load(
        {
            "compartments": ["acme", "hr"],
            "principals": {"owner": principal("console:owner")},
            "paired": {"role": "member", "clearance": "INTERNAL"},
            "channels": CHANNELS,
            **more,
        },
        tools=(),
    )


LABELS = st.builds(
    Label,
    level=st.sampled_from(Level),
    compartments=st.frozensets(st.sampled_from(("acme", "hr", "gone"))),
    integrity=st.sampled_from(Integrity),
)
PROGRAMS = st.lists(
    st.builds(
        Program,
        st.sampled_from(("ci", "owner", "nightly", "shut", "", "A", "a:b")),
        st.sampled_from((Role.MEMBER, Role.ADMIN)),
        LABELS,
    ),
    unique_by=lambda one: one.name,
    max_size=4,
)
DOCUMENTS = st.sampled_from(
    (
        policy(),
        policy(channels={"console": {"classification": "top"}}),
        policy(blocked=["api:shut"]),
        in_force(policy(), Overrides(blocked=frozenset({"api:shut"}))),
        in_force(policy(), Overrides({"ann": Person(accounts=frozenset({"api:ci", "chat:ann"}))})),
    )
)


@given(DOCUMENTS, PROGRAMS)
def test_a_program_is_what_its_token_says_or_nobody(document: Document, programs: list[Program]) -> None:
    after = with_programs(document, programs)
    for one in programs:
        fits = (
            one.clearance.compartments <= set(document.compartments)
            and "api" in document.channels
            and one.account not in document.blocked
            and one.name not in {"", "A", "a:b"}
        )
        found = after.principals.get(one.principal)
        assert (found is not None) == fits
        if found is None:
            assert after.principal(one.account) is None
        else:
            assert (found.role, found.clearance, found.may_release) == (one.role, one.clearance, False)
            assert after.principal(one.account) == (one.principal, found)


def test_who_is_let_in_is_a_principal_beside_the_people() -> None:
    document = policy(blocked=["api:shut"])
    ci, shut = (Program(name, Role.MEMBER, parse("INTERNAL{hr}")) for name in ("ci", "shut"))
    after = with_programs(document, (ci, shut))
    assert list(after.principals) == ["owner", "program:ci"]
    assert with_programs(document, (shut,)) is document is with_programs(document, ())


@given(DOCUMENTS, PROGRAMS)
def test_nothing_else_changes(document: Document, programs: list[Program]) -> None:
    after = with_programs(document, programs)
    people = {name: who for name, who in after.principals.items() if not is_program(name)}
    assert after.model_copy(update={"principals": people}).digest == document.digest
    assert (after is document) == (after.principals == document.principals)
    owned = [account for who in after.principals.values() for account in who.accounts]
    assert len(owned) == len(set(owned))


@given(DOCUMENTS, PROGRAMS)
def test_their_order_does_not_matter(document: Document, programs: list[Program]) -> None:
    assert with_programs(document, programs) == with_programs(document, reversed(programs))


def test_its_name_is_no_persons() -> None:
    ci = Program("ci", Role.MEMBER, parse("PUBLIC"))
    assert (ci.principal, ci.account, program_name(ci.principal)) == ("program:ci", "api:ci", "ci")
    assert not is_program("ci")
    with pytest.raises(DocumentError):
        policy(principals={"program:ci": principal("console:owner")})


def problem(**wrong: object) -> str:
    with pytest.raises(DocumentError) as caught:
        policy(**wrong)
    (one,) = caught.value.problems
    return one.message


def test_no_person_of_the_file_has_a_programs_account() -> None:
    told = problem(principals={"owner": principal("console:owner"), "ann": principal("api:ci", role="admin")})
    assert told == "`api:ci` is a program's account, which `lockgate token create` makes, leave it out here"
    assert policy(blocked=["api:ci"]).blocked == ("api:ci",)


def test_nobody_is_paired_with_a_programs_account() -> None:
    ann = Person(Role.MEMBER, parse("INTERNAL"), frozenset({"api:ci"}))
    document = in_force(policy(), Overrides({"ann": ann}))
    assert document.principal("api:ci") is None
    assert "ann" not in document.principals


@pytest.mark.parametrize(
    "place",
    [
        {"chats": {"team": {"channel": "api", "chat": "ci", "classification": "PUBLIC"}}},
        {"recipients": {"ci": {"channel": "api", "chat": "ci", "clearance": "PUBLIC"}}},
    ],
    ids=["a chat", "a recipient"],
)
def test_the_channel_of_programs_has_no_places(place: Mapping[str, object]) -> None:
    assert problem(**place).startswith("`api` has no chats")


def test_no_chat_of_programs_is_classified_or_blocked() -> None:
    place = ChatPlace("api", "", "ci")
    for placing in (Placing(parse("PUBLIC")), Placing(blocked=True)):
        changed = Overrides().changed(AccessChange(places={place: placing}))
        assert in_force(policy(), changed).chat("api", "", "ci") is None
