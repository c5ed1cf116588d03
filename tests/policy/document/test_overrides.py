"""Whatever was changed at run time, the file is the ceiling; what does not fit it is void."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.document.model import Document, load
from policy.document.overrides import AccessChange, ChatPlace, Overrides, Person, Placing, in_force, lower
from policy.labels import PUBLIC, Integrity, Label, Level, parse
from policy.request import Role
from tests.people import principal

K = TypeVar("K")
V = TypeVar("V")

TEAM = ChatPlace("chat", "w", "team")
OTHER = ChatPlace("chat", "", "other")
INTERNAL = parse("INTERNAL")


def policy(**more: object) -> Document:
    """Return a file's policy with two people, two chats and a ceiling for whoever is let in."""
    return load(
        {
            "compartments": ["acme", "hr"],
            "principals": {
                "owner": principal("console:owner", may_release=True),
                "ann": principal("chat:ann", "chat:ann2", role="approver", clearance="CONFIDENTIAL{hr}"),
            },
            "paired": {"role": "member", "clearance": "INTERNAL{acme}"},
            "blocked": ["chat:mallory"],
            "channels": {"console": {"classification": "top"}, "chat": {"classification": "CONFIDENTIAL{hr}"}},
            "chats": {
                "team": {"channel": "chat", "workspace": "w", "chat": "team", "classification": "INTERNAL{hr}"},
                "shut": {"channel": "chat", "chat": "shut", "classification": "PUBLIC", "blocked": True},
            },
            **more,
        },
        tools=(),
    )


def people(**said: Person) -> Overrides:
    return Overrides(people=said)


def changed(overrides: Overrides, document: Document | None = None) -> Document:
    return in_force(policy() if document is None else document, overrides)


ACCOUNTS = ("console:owner", "chat:ann", "chat:ann2", "chat:bob", "chat:carl", "chat:mallory", "gone:x", "chat:", "x")
LABELS = st.builds(
    Label,
    level=st.sampled_from(Level),
    compartments=st.frozensets(st.sampled_from(("acme", "hr", "gone"))),
    integrity=st.sampled_from(Integrity),
)
PEOPLE = st.builds(
    Person,
    role=st.none() | st.sampled_from(Role),
    clearance=st.none() | LABELS,
    accounts=st.frozensets(st.sampled_from(ACCOUNTS), max_size=3),
)
PLACES = st.builds(
    ChatPlace,
    channel=st.sampled_from(("chat", "gone")),
    workspace=st.sampled_from(("", "w")),
    chat=st.sampled_from(("team", "shut", "other")),
)
PLACINGS = st.builds(
    Placing, classification=st.none() | LABELS, vouched=st.none() | st.booleans(), blocked=st.booleans()
)
OVERRIDES = st.builds(
    Overrides,
    people=st.dictionaries(st.sampled_from(("owner", "ann", "bob", "carl", "a:b")), PEOPLE),
    places=st.dictionaries(PLACES, PLACINGS),
    blocked=st.frozensets(st.sampled_from(ACCOUNTS), max_size=2),
)
DOCUMENTS = st.sampled_from(
    (policy(), policy(paired=None), policy(chats={}), policy(paired={"role": "guest", "clearance": "RESTRICTED"}))
)


def within(one: Label, bound: Label) -> bool:
    return one.meet(bound) == one


@given(DOCUMENTS, OVERRIDES)
def test_nobody_and_nowhere_exceeds_what_the_file_alone_allows(document: Document, overrides: Overrides) -> None:
    after = in_force(document, overrides)
    for name, who in after.principals.items():
        known = document.principals.get(name)
        ceiling = document.paired if known is None else known
        assert ceiling is not None
        assert within(who.clearance, ceiling.clearance)
        assert lower(who.role, ceiling.role) is who.role
        assert who.may_release is (known is not None and known.may_release)
        assert known is not None or who.accounts
    for chat in after.chats.values():
        file = document.chat(chat.channel, chat.workspace, chat.chat)
        assert within(
            chat.classification,
            file.classification if file else PUBLIC.join(document.channel(chat.channel).classification),
        )
        assert chat.blocked or file is None or not file.blocked
    assert set(document.blocked) <= set(after.blocked)
    rest: dict[str, object] = {"principals": {}, "chats": {}, "blocked": ()}
    assert after.model_copy(update=rest) == document.model_copy(update=rest)


@given(DOCUMENTS, OVERRIDES)
def test_every_account_belongs_to_one_person_and_the_files_people_keep_theirs(
    document: Document, overrides: Overrides
) -> None:
    after = in_force(document, overrides)
    owned = [account for who in after.principals.values() for account in who.accounts]
    assert len(owned) == len(set(owned))
    for name, who in document.principals.items():
        for account in who.accounts:
            found = after.principal(account)
            assert found is None if account in after.blocked else found is not None and found[0] == name


@given(DOCUMENTS, OVERRIDES)
def test_composing_twice_is_composing_once(document: Document, overrides: Overrides) -> None:
    once = in_force(document, overrides)
    assert in_force(once, overrides) == once
    assert in_force(once, overrides).digest == once.digest


def _backwards(said: Mapping[K, V]) -> dict[K, V]:
    return dict(list(said.items())[::-1])


@given(DOCUMENTS, OVERRIDES)
def test_the_order_of_what_was_changed_does_not_matter(document: Document, overrides: Overrides) -> None:
    other = Overrides(_backwards(overrides.people), _backwards(overrides.places), overrides.blocked)
    assert in_force(document, other) == in_force(document, overrides)
    assert in_force(document, other).digest == in_force(document, overrides).digest


@given(DOCUMENTS)
def test_no_change_at_all_changes_nothing(document: Document) -> None:
    assert in_force(document, Overrides()) is document


def test_somebody_who_is_let_in_is_as_much_as_the_ceiling_or_less() -> None:
    found = changed(people(bob=Person(accounts=frozenset({"chat:bob"})))).principal("chat:bob")
    assert found is not None
    assert (found[0], found[1].role, found[1].clearance) == ("bob", Role.MEMBER, parse("INTERNAL{acme}"))
    less = Person(Role.GUEST, INTERNAL, frozenset({"chat:bob"}))
    found = changed(people(bob=less)).principal("chat:bob")
    assert found is not None
    assert (found[1].role, found[1].clearance) == (Role.GUEST, INTERNAL)
    more = Person(Role.OWNER, parse("RESTRICTED{acme,hr}"), frozenset({"chat:bob"}))
    found = changed(people(bob=more)).principal("chat:bob")
    assert found is not None
    assert (found[1].role, found[1].clearance) == (Role.MEMBER, parse("INTERNAL{acme}"))


def test_nobody_is_let_in_where_the_file_pairs_nobody() -> None:
    said = people(bob=Person(accounts=frozenset({"chat:bob"})), ann=Person(accounts=frozenset({"chat:x"})))
    document = policy(paired=None)
    assert in_force(document, said) == document


@pytest.mark.parametrize(
    "person",
    [
        pytest.param(Person(accounts=frozenset({"gone:bob"})), id="channel"),
        pytest.param(Person(accounts=frozenset({"chat:"})), id="nobody's account"),
        pytest.param(Person(clearance=parse("PUBLIC{gone}"), accounts=frozenset({"chat:bob"})), id="compartment"),
        pytest.param(Person(accounts=frozenset({"chat:ann"})), id="another's account"),
        pytest.param(Person(), id="no account"),
    ],
)
def test_what_does_not_fit_the_file_lets_nobody_in(person: Person) -> None:
    assert changed(people(bob=person)) == policy()


def test_what_is_no_name_lets_nobody_in() -> None:
    assert changed(Overrides(people={"chat:x": Person(accounts=frozenset({"chat:bob"}))})) == policy()


def test_an_account_of_a_person_who_was_sent_away_is_not_passed_on() -> None:
    away = Person(Role.STRANGER, accounts=frozenset({"chat:bob"}))
    assert changed(people(bob=away)) == policy()
    assert changed(people(bob=away, carl=Person(accounts=frozenset({"chat:bob"})))) == policy()
    assert changed(people(ann=Person(Role.STRANGER))).principals["ann"].role is Role.STRANGER


@pytest.mark.parametrize("role", [Role.STRANGER, Role.MEMBER])
def test_blocking_passes_no_account_to_another_person(role: Role) -> None:
    """An owner all of whose accounts are blocked, also one who was sent away, keeps the claim on an account."""
    claims = people(ann=Person(role, accounts=frozenset({"chat:x"})), carl=Person(accounts=frozenset({"chat:x"})))
    blocked = frozenset({"chat:ann", "chat:ann2"})
    for before in (policy(), changed(Overrides(blocked=blocked)), changed(replace(claims, blocked=blocked))):
        for said in (claims, replace(claims, blocked=blocked)):
            assert in_force(before, said).principal("chat:x") is None


@given(DOCUMENTS, OVERRIDES, st.sets(st.sampled_from(ACCOUNTS)))
def test_blocking_only_takes_away(document: Document, overrides: Overrides, accounts: set[str]) -> None:
    before = in_force(document, overrides)
    after = in_force(document, replace(overrides, blocked=overrides.blocked | accounts))
    for account in ACCOUNTS:
        now, then = after.principal(account), before.principal(account)
        assert now is None or (then is not None and now[0] == then[0])


def test_two_people_who_claim_one_account_both_lose_it() -> None:
    both = people(
        bob=Person(accounts=frozenset({"chat:bob", "chat:x"})), carl=Person(accounts=frozenset({"chat:x", "chat:carl"}))
    )
    after = changed(both)
    assert after.principal("chat:x") is None
    assert after.principals["bob"].accounts == ("chat:bob",)
    assert after.principals["carl"].accounts == ("chat:carl",)


def test_somebody_the_file_names_is_lowered_and_may_have_more_accounts() -> None:
    said = Person(Role.MEMBER, parse("CONFIDENTIAL{gone}"), frozenset({"chat:ann", "chat:phone"}))
    ann = changed(people(ann=said)).principals["ann"]
    assert (ann.role, ann.clearance) == (Role.MEMBER, parse("CONFIDENTIAL"))
    assert ann.accounts == ("chat:ann", "chat:ann2", "chat:phone")
    raised = Person(Role.OWNER, parse("RESTRICTED{acme,hr}"))
    assert changed(people(ann=raised)) == policy()


def test_a_blocked_account_is_taken_away_and_so_is_whom_none_is_left() -> None:
    one = changed(Overrides(blocked=frozenset({"chat:ann"})))
    assert one.principal("chat:ann") is None
    assert one.principals["ann"].accounts == ("chat:ann2",)
    assert one.blocked == ("chat:ann", "chat:mallory")
    assert "ann" not in changed(Overrides(blocked=frozenset({"chat:ann", "chat:ann2"}))).principals


def test_a_chat_is_classified_up_to_its_channel() -> None:
    chat = changed(Overrides(places={OTHER: Placing(parse("RESTRICTED{acme,hr}~"), vouched=True)})).chat(
        "chat", "", "other"
    )
    assert chat is not None
    assert (chat.classification, chat.members_vouched, chat.blocked) == (parse("CONFIDENTIAL{hr}"), True, False)
    assert chat.inbound is None


def test_a_chat_the_file_names_is_lowered_blocked_and_vouched_for() -> None:
    def after(placing: Placing) -> object:
        chat = changed(Overrides(places={TEAM: placing})).chat("chat", "w", "team")
        assert chat is not None
        return str(chat.classification), chat.members_vouched, chat.blocked

    assert after(Placing()) == ("INTERNAL{hr}", False, False)
    assert after(Placing(parse("RESTRICTED{acme,hr}"), vouched=True)) == ("INTERNAL{hr}", True, False)
    assert after(Placing(parse("CONFIDENTIAL{gone}"), vouched=False, blocked=True)) == ("INTERNAL", False, True)


@pytest.mark.parametrize(
    "place, placing",
    [
        pytest.param(OTHER, Placing(parse("INTERNAL{gone}")), id="compartment"),
        pytest.param(replace(OTHER, channel="gone"), Placing(INTERNAL, blocked=True), id="channel"),
        pytest.param(OTHER, Placing(vouched=True), id="nothing said of its classification"),
        pytest.param(replace(OTHER, chat="shut"), Placing(parse("RESTRICTED{acme}")), id="blocked by the file"),
    ],
)
def test_what_does_not_fit_the_file_classifies_no_chat(place: ChatPlace, placing: Placing) -> None:
    assert changed(Overrides(places={place: placing})) == policy()


def test_a_chat_nobody_classified_can_be_blocked() -> None:
    chat = changed(Overrides(places={OTHER: Placing(parse("INTERNAL{gone}"), blocked=True)})).chat("chat", "", "other")
    assert chat is not None
    assert (chat.classification, chat.blocked) == (PUBLIC, True)


def test_a_change_stands_in_the_place_of_what_was_said_before() -> None:
    bob, carl = Person(accounts=frozenset({"chat:bob"})), Person(accounts=frozenset({"chat:carl"}))
    before = Overrides({"bob": bob, "ann": carl}, {TEAM: Placing(INTERNAL)}, frozenset({"chat:x", "chat:y"}))
    change = AccessChange(
        {"bob": carl, "ann": None}, {TEAM: None, OTHER: Placing(PUBLIC)}, {"chat:x": False, "chat:z": True}
    )
    after = before.changed(change)
    assert after == Overrides({"bob": carl}, {OTHER: Placing(PUBLIC)}, frozenset({"chat:y", "chat:z"}))
    assert before.changed(AccessChange()) == before


@given(st.lists(st.builds(ChatPlace, *(st.text(alphabet="a:%", max_size=3) for _ in range(3))), min_size=2, max_size=2))
def test_different_places_have_different_names(places: list[ChatPlace]) -> None:
    one, other = places
    assert (str(one) == str(other)) is (one == other)
