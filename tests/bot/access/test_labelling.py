from datetime import UTC, datetime

import pytest

from bot.access import labelling
from channels.messages import Address
from channels.port import Audience, Reader, ReaderKind
from policy.document.groups import policy_at
from policy.document.overrides import Overrides
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, parse
from policy.request import ListedReaders, Role
from tests.bot.kit import CONFIDENTIAL, GUEST, HOME, INTERNAL, TOP, document
from tests.people import principal

OWNER = Audience.of("console:owner")


@pytest.mark.parametrize("role", list(Role))
def test_only_what_a_member_or_higher_typed_is_trusted(role: Role) -> None:
    typed = labelling.inbound(document(), HOME, role, authored=True)
    assert typed.untrusted is (role in {Role.GUEST, Role.STRANGER})
    assert labelling.inbound(document(), HOME, role, authored=False).untrusted


def test_a_message_has_its_channels_inbound_label() -> None:
    console = {"classification": "top", "inbound": "INTERNAL"}
    policy = document(channels={"console": console})
    assert labelling.inbound(policy, HOME, Role.OWNER, authored=True) == INTERNAL


def test_unknown_is_worst_for_an_unknown_channel() -> None:
    elsewhere = Address("pigeon", "owner")
    assert labelling.inbound(document(), elsewhere, Role.OWNER, authored=True) == TOP
    assert labelling.classification(document(), elsewhere) is None
    assert labelling.destination(document(), elsewhere, OWNER).clearance is None


def test_an_account_of_nobody_is_cleared_for_public_alone() -> None:
    assert labelling.reader(document(), Reader("console:mallory")) == PUBLIC
    assert labelling.reader(document(), Reader("console:owner")) == TOP


def test_a_places_clearance_is_the_meet_of_channel_and_recipient() -> None:
    policy = document(
        channels={"console": {"classification": "CONFIDENTIAL"}},
        recipients={"owner": {"channel": "console", "chat": "owner", "clearance": "top"}},
    )
    assert labelling.classification(policy, HOME) == CONFIDENTIAL


def test_two_names_of_one_place_meet_whatever_their_order() -> None:
    wide = {"channel": "console", "chat": "owner", "clearance": "top"}
    narrow = {**wide, "clearance": "INTERNAL"}
    for recipients in ({"a": wide, "b": narrow}, {"b": narrow, "a": wide}):
        assert labelling.classification(document(recipients=recipients), HOME) == INTERNAL


def test_a_chat_is_cleared_for_what_channel_chat_and_its_other_names_admit() -> None:
    team = {"channel": "console", "chat": "team", "workspace": "w", "classification": "CONFIDENTIAL"}
    alias = {"channel": "console", "chat": "team", "workspace": "w", "clearance": "INTERNAL"}
    here, elsewhere = Address("console", "team", "w", "thread"), Address("console", "team", "v")
    policy = document(chats={"team": team})
    assert labelling.classification(policy, here) == CONFIDENTIAL
    assert labelling.classification(policy, elsewhere) is None
    assert labelling.classification(document(chats={"team": team}, recipients={"a": alias}), here) == INTERNAL
    narrow = {"console": {"classification": "INTERNAL"}}
    assert labelling.classification(document(channels=narrow, chats={"team": team}), here) == INTERNAL
    blocked = document(chats={"team": {**team, "blocked": True}}, recipients={"a": alias})
    assert labelling.classification(blocked, here) is None


def test_a_recipient_is_of_its_workspace_alone() -> None:
    policy = document(recipients={"a": {"channel": "console", "chat": "c", "workspace": "w", "clearance": "INTERNAL"}})
    assert labelling.classification(policy, Address("console", "c", "w")) == INTERNAL
    assert labelling.classification(policy, Address("console", "c")) is None


def test_what_is_typed_in_a_chat_is_as_high_as_the_chat_unless_the_policy_says_otherwise() -> None:
    team = {"channel": "console", "chat": "team", "classification": "top"}
    here = Address("console", "team")
    assert labelling.inbound(document(chats={"team": team}), here, Role.MEMBER, authored=True) == parse("RESTRICTED")
    assert labelling.inbound(document(chats={"team": team}), here, Role.GUEST, authored=True) == parse("RESTRICTED~")
    lower = document(chats={"team": {**team, "inbound": "PUBLIC"}})
    assert labelling.inbound(lower, here, Role.MEMBER, authored=True) == PUBLIC


def test_a_destination_is_no_wider_than_its_least_reader() -> None:
    both = Audience.of("console:owner", "console:mallory", shared=True)
    assert labelling.destination(document(), HOME, OWNER).clearance == TOP
    reached = labelling.destination(document(), HOME, both)
    assert reached.clearance == PUBLIC
    assert reached.shared


def test_many_readers_are_not_listed() -> None:
    many = Audience.of(*(f"console:u{number}" for number in range(labelling.MOST_LISTED + 1)), shared=True)
    assert labelling.destination(document(), HOME, many).listed == ListedReaders((), complete=True, many=True)


@pytest.mark.parametrize(
    "audience",
    [
        pytest.param(Audience.of("console:owner", complete=False), id="incomplete"),
        pytest.param(Audience.of(), id="empty"),
    ],
)
def test_unknown_is_worst_for_readers_that_cannot_be_listed(audience: Audience) -> None:
    assert labelling.destination(document(), HOME, audience).clearance is None


def test_untrusted_changes_integrity_alone() -> None:
    assert labelling.untrusted(parse("CONFIDENTIAL{hr}")) == parse("CONFIDENTIAL{hr}~")


@pytest.mark.parametrize("taint", ["PUBLIC~", "CONFIDENTIAL{hr}~", "RESTRICTED", "PUBLIC"])
def test_a_bounded_answer_has_the_integrity_of_who_asked_and_the_level_of_all_that_was_read(taint: str) -> None:
    assert labelling.bounded(parse(taint), parse("INTERNAL{x}")) == parse(taint.removesuffix("~"))
    assert labelling.bounded(parse(taint), parse("PUBLIC~")) == parse(f"{taint.removesuffix('~')}~")


def test_a_guests_place_is_public() -> None:
    assert labelling.classification(document(), GUEST) == PUBLIC


def test_unknown_is_worst_for_a_shared_chat_nobody_classified() -> None:
    square = Address("console", "square")
    assert labelling.inbound(document(), square, Role.OWNER, authored=True, shared=True) == TOP
    assert labelling.classification(document(), square) is None
    assert labelling.destination(document(), square, Audience.of("console:owner", shared=True)).clearance is None


def test_members_of_a_platform_may_know_what_its_channel_says() -> None:
    policy = document(channels={"console": {"classification": "top", "members": "INTERNAL"}})
    assert labelling.reader(policy, Reader("console:mallory", ReaderKind.MEMBER)) == INTERNAL
    for kind in (ReaderKind.GUEST, ReaderKind.STRANGER, ReaderKind.BOT):
        assert labelling.reader(policy, Reader("console:mallory", kind)) == PUBLIC
    assert labelling.reader(policy, Reader("pigeon:mallory", ReaderKind.MEMBER)) == PUBLIC


def test_a_blocked_account_is_no_member() -> None:
    """Blocking a person whose clearance is below the members' must not raise it."""
    policy = document(
        channels={"console": {"classification": "top", "members": "INTERNAL"}}, blocked=["console:mallory"]
    )
    assert labelling.reader(policy, Reader("console:mallory", ReaderKind.MEMBER)) == PUBLIC


def test_a_person_whose_access_ended_is_no_member() -> None:
    """The end of an access must raise no clearance, not even that of a person below the members."""
    owner = principal("console:owner")
    mallory = {**principal("console:mallory", role="member", clearance="PUBLIC"), "until": "2030-01-01"}
    policy = document(
        channels={"console": {"classification": "top", "members": "INTERNAL"}},
        principals={"owner": owner, "mallory": mallory},
    )
    for year in (2029, 2031):
        then = policy_at(policy, Overrides(), datetime(year, 1, 1, tzinfo=UTC))
        assert labelling.reader(then, Reader("console:mallory", ReaderKind.MEMBER)) == PUBLIC


PEOPLE = {
    "ann": principal("console:ann", "room:ann", role="member", clearance="CONFIDENTIAL"),
    "sam": principal("room:sam", role="member", clearance="PUBLIC"),
}
CHANNELS = {"console": {"classification": "top"}, "room": {"classification": "INTERNAL"}}
ROOM, CONSOLE = Address("room", "ann"), Address("console", "ann")


@pytest.mark.parametrize(
    "who, label, first, places",
    [
        pytest.param("ann", INTERNAL, "", (ROOM, CONSOLE), id="the console last"),
        pytest.param("ann", INTERNAL, str(CONSOLE), (CONSOLE, ROOM), id="where it was set going first"),
        pytest.param(
            "ann",
            INTERNAL,
            str(Address("room", "ann", thread="7")),
            (Address("room", "ann", thread="7"), CONSOLE),
            id="in its thread",
        ),
        pytest.param("ann", INTERNAL, str(Address("room", "team")), (ROOM, CONSOLE), id="not a shared chat"),
        pytest.param(
            "ann",
            INTERNAL,
            str(Address("room", "team", recipient="ann")),
            (ROOM, CONSOLE),
            id="nor aside in one",
        ),
        pytest.param("ann", CONFIDENTIAL, str(ROOM), (CONSOLE,), id="not where it may not be known"),
        pytest.param("ann", parse("RESTRICTED"), "", (), id="above the person"),
        pytest.param("sam", INTERNAL, "", (), id="above the person, where it could be said"),
        pytest.param("eve", PUBLIC, "", (), id="a person that is not known"),
    ],
)
def test_where_somebody_can_be_told_something_alone(
    who: str, label: Label, first: str, places: tuple[Address, ...]
) -> None:
    assert labelling.private_places(document(principals=PEOPLE, channels=CHANNELS), who, label, first) == places


def test_a_blocked_chat_is_no_place_to_be_told_something() -> None:
    chats = {"ann": {"channel": "room", "chat": "ann", "classification": "INTERNAL", "blocked": True}}
    policy = document(principals=PEOPLE, channels=CHANNELS, chats=chats)
    assert labelling.private_places(policy, "ann", PUBLIC) == (CONSOLE,)


def test_what_may_be_told_in_a_private_chat_is_no_more_than_its_reader_may_know() -> None:
    people = {"ann": principal("console:ann", role="member", clearance="INTERNAL")}
    alias = {"channel": "console", "chat": "ann", "clearance": "PUBLIC"}
    ann, nobody = Address("console", "ann"), Address("console", "nobody")
    assert labelling.expected(document(principals=people), ann).clearance == INTERNAL
    assert labelling.expected(document(principals=people, recipients={"a": alias}), ann).clearance == PUBLIC
    assert labelling.expected(document(principals=people), nobody).clearance is None
    team = {"channel": "console", "chat": "ann", "classification": "CONFIDENTIAL"}
    assert labelling.expected(document(principals=people, chats={"team": team}), ann).clearance == CONFIDENTIAL
    blocked = {**team, "blocked": True}
    assert labelling.expected(document(principals=people, chats={"team": blocked}), ann).clearance is None


def test_what_a_call_asks_for_is_a_label_of_the_configuration() -> None:
    policy = document(compartments=["acme"])
    assert labelling.named(policy, "CONFIDENTIAL{acme}") == parse("CONFIDENTIAL{acme}")
    for text in ("CONFIDENTIAL{hr}", "SECRET", ""):
        with pytest.raises(LabelTextError):
            labelling.named(policy, text)
