"""The way in: who is let in, what is kept, and what a stranger learns."""

from pathlib import Path

import pytest

from bot.access.pairing import ASK_OWNER, NOT_YOURS, UNKNOWN_HERE
from bot.app.opening import open_app
from bot.ingress.flood_limits import FLOODED
from bot.ingress.router import NOT_SERVING, Routed
from bot.sessions.log.events import EventType
from bot.sessions.models import Title
from channels.messages import Address, How, Inbound
from policy.labels import PUBLIC, parse
from tests.bot.kit import DIRTY, GUEST, HOME, bang, eventually, policy
from tests.bot.rooms import Rooms, talking
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio


def typed(text: str, account: str = "console:owner", dedupe: str = "d1", address: Address = HOME) -> Inbound:
    return Inbound(address, account, text, dedupe)


@pytest.mark.parametrize("text", ["hello", "/status", "/approve abc", "/nonsense"])
async def test_a_stranger_learns_one_sentence_whatever_he_tries(tmp_path: Path, text: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        receipt = await owner.app.router.receive(typed(text, "console:mallory", address=Address("console", "mallory")))
        assert receipt.outcome is Routed.REFUSED
        assert owner.shown.strip() == f"→ mallory: {ASK_OWNER.format(account='console:mallory')}"
        assert await owner.app.store.sessions.state(receipt.sid) is None
        rows = await owner.app.store.audit.records("audit")
        refused, said = rows
        assert (refused.kind, refused.body["account"]) == ("refused", "console:mallory")
        assert refused.body["address"] == said.body["destination"] == "console::mallory:"


async def test_a_bot_that_is_a_stranger_is_given_no_code(tmp_path: Path) -> None:
    paired = policy(paired={"role": "member", "clearance": "INTERNAL"})
    async with running(tmp_path, paired, serve=False) as owner:
        for bot in (True, False):
            told = Inbound(Address("console", f"m{bot}"), f"console:m{bot}", "hello", f"b{bot}", bot=bot)
            assert (await owner.app.router.receive(told)).outcome is Routed.REFUSED
            waiting = await owner.app.store.access.pairings()
            assert [one.account for one in waiting] == ([] if bot else ["console:mFalse"])


async def test_a_stranger_cannot_grow_the_audit_as_fast_as_he_writes(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for number in range(1, 21):
            told = typed("hello", "console:mallory", f"d{number}", Address("console", "mallory"))
            assert (await owner.app.router.receive(told)).outcome is Routed.REFUSED
        await owner.app.router.receive(typed("hello", "console:eve", "e1", Address("console", "eve")))
        rows = await owner.app.store.audit.records("audit")
        refused = [(row.body["account"], row.body["times"]) for row in rows if row.kind == "refused"]
        assert refused == [*(("console:mallory", times) for times in (1, 2, 4, 8, 16)), ("console:eve", 1)]
        assert owner.shown.count(UNKNOWN_HERE) == 2
        assert len(rows) == 8


@pytest.mark.parametrize(
    "role, text, how, told",
    [
        ("guest", "hello", How.TEXT, UNKNOWN_HERE),
        ("guest", "/approve x", How.BUTTON, NOT_YOURS),
        ("member", "/audit", How.TEXT, "Only admins may give this command."),
    ],
)
async def test_somebody_known_grows_the_audit_no_faster(
    tmp_path: Path, role: str, text: str, how: How, told: str
) -> None:
    people = {"gil": principal("console:owner", role=role)}
    async with running(tmp_path, policy(principals=people), serve=False) as owner:
        for number in range(20):
            pressed = Inbound(HOME, "console:owner", text, f"d{number}", how=how)
            assert (await owner.app.router.receive(pressed)).outcome is Routed.REFUSED
        rows = await owner.app.store.audit.records("audit")
        assert [row.body["times"] for row in rows if row.kind == "refused"] == [1, 2, 4, 8, 16]
        # What is told is decided first, and that is a row.
        assert (owner.shown.count(told), len(rows)) == (5, 10)


def twice_a_minute() -> str:
    """Return a configuration in which people may say something twice in a minute."""
    people = {
        "owner": principal("console:owner"),
        "mel": principal("console:mel", role="member"),
        "ann": principal("console:ann", role="member"),
    }
    return policy(principals=people, blocks={"limits": {"person_messages_per_minute": 2}})


async def test_who_says_too_much_is_told_once_and_holds_up_nobody_else(tmp_path: Path) -> None:
    async with running(tmp_path, twice_a_minute(), serve=False) as owner:

        async def says(who: str, dedupe: str, thread: str = "") -> Routed:
            there = Address("console", who, thread=thread)
            return (await owner.app.router.receive(typed("hi", f"console:{who}", dedupe, there))).outcome

        # What the platform tells again counts once, and threads count together.
        told = [await says("mel", dedupe, thread) for dedupe, thread in (("a", ""), ("a", ""), ("b", "1"), ("c", ""))]
        assert told == [Routed.ACCEPTED] * 3 + [Routed.REFUSED]
        assert [await says("mel", "d"), await says("mel", "b", "1")] == [Routed.REFUSED, Routed.ACCEPTED]
        assert [await says("ann", "a"), *[await says("owner", dedupe) for dedupe in "abcd"]] == [Routed.ACCEPTED] * 5
        assert owner.shown.count(FLOODED) == 1
        rows = await owner.app.store.audit.records("audit")
        refused = [(row.body["account"], row.body["reason"]) for row in rows if row.kind == "refused"]
        assert refused == [("console:mel", "too many messages")]


async def test_what_is_said_at_another_level_is_counted_apart(tmp_path: Path) -> None:
    """How much somebody says in a CONFIDENTIAL chat is not told in one of another level."""
    chats = {
        name: {"channel": "room", "chat": name, "classification": label}
        for name, label in (("team", "CONFIDENTIAL"), ("den", "CONFIDENTIAL"), ("hall", "INTERNAL"))
    }
    readers = {name: frozenset({"room:ann", "room:mel"}) for name in chats}
    limits = {"limits": {"person_messages_per_minute": 2}}
    async with talking(tmp_path, Rooms(readers), chats=chats, blocks=limits, serve=False) as people:

        async def said(chat: str, times: int) -> list[Routed]:
            there = Address("room", chat)
            return [(await people.send("mel", "hello", there)).outcome for _ in range(times)]

        assert await said("team", 3) == [Routed.ACCEPTED] * 2 + [Routed.REFUSED]
        assert await said("den", 1) == [Routed.REFUSED]
        before = list(people.rooms.said)
        assert await said("hall", 3) == [Routed.ACCEPTED] * 2 + [Routed.REFUSED]
        assert len(people.rooms.said) == len(before) + 1


async def test_commands_and_presses_count_like_messages(tmp_path: Path) -> None:
    async with running(tmp_path, twice_a_minute(), serve=False) as owner:

        async def does(text: str, dedupe: str, how: How = How.TEXT, who: str = "mel") -> Routed:
            told = Inbound(Address("console", who), f"console:{who}", text, dedupe, how=how)
            return (await owner.app.router.receive(told)).outcome

        # A platform that tells of a command again gets an answer again, and that counts once.
        first = [await does("/help", "a"), await does("/help", "a"), await does("/sessions", "b", How.OPENED)]
        assert first == [Routed.ANSWERED] * 3
        rows = await owner.app.store.audit.records("audit")
        for number in range(20):
            await does("/help", f"c{number}")
            await does("/continue 22222222", f"d{number}", How.BUTTON)
            await does("/sessions", f"e{number}", How.OPENED)
            await does("hello", f"f{number}")
        assert owner.shown.count(FLOODED) == 1
        # One tells that it is too much, one that this may be said.
        assert len(await owner.app.store.audit.records("audit")) == len(rows) + 2
        assert [await does("/help", f"g{number}", who="owner") for number in range(5)] == [Routed.ANSWERED] * 5


async def test_who_says_too_much_still_stops_and_answers_and_not_for_ever(tmp_path: Path) -> None:
    async with running(tmp_path, twice_a_minute(), serve=False) as owner:
        mel = Person(owner.app, owner.output, Address("console", "mel"), "console:mel")
        for _ in range(5):
            await mel.send("/help")
        assert owner.shown.count(FLOODED) == 1
        pressed = await mel.send("/approve 22222222", how=How.BUTTON)
        assert (pressed.outcome, (await mel.send("/STOP now")).outcome) == (Routed.ANSWERED, Routed.ANSWERED)
        rows = await owner.app.store.audit.records("audit")
        for text in ("/deny 22222222", "/approve 22222222", "/stop") * 5:
            assert (await mel.send(text)).outcome is Routed.REFUSED
        assert await owner.app.store.audit.records("audit") == rows


async def test_what_is_too_much_for_a_process_that_does_not_serve_is_told_once(tmp_path: Path) -> None:
    async def tell(line: str) -> None:
        owner.output.write(line)

    async with running(tmp_path, twice_a_minute(), serve=False) as owner:
        await owner.app.reloader.start(tell)
        async with open_app(owner.app.config, [], {}) as other:
            await other.store.policy.put_policy("0" * 64, "another", ())
        mel = Person(owner.app, owner.output, Address("console", "mel"), "console:mel")
        for _ in range(9):
            await mel.send("/help")
        assert (owner.shown.count(NOT_SERVING), owner.shown.count(FLOODED)) == (2, 1)


async def test_a_guest_may_not_either(tmp_path: Path) -> None:
    people = {"gil": principal("console:owner", role="guest")}
    async with running(tmp_path, policy(principals=people), serve=False) as owner:
        assert (await owner.app.router.receive(typed("hello"))).outcome is Routed.REFUSED
        row, *_ = await owner.app.store.audit.records("audit")
        assert row.body["reason"] == "role guest is below member"


async def test_a_message_is_in_the_store_when_it_is_acknowledged(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        receipt = await owner.app.router.receive(typed("hello"))
        assert (receipt.outcome, receipt.sid) == (Routed.ACCEPTED, owner.sid)
        assert (await owner.state()).waiting_items == 1
        assert owner.shown == ""


async def test_accepted_once_the_same_update_again_is_the_same_message(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for _ in range(3):
            assert (await owner.app.router.receive(typed("hello"))).outcome is Routed.ACCEPTED
        assert (await owner.state()).waiting_items == 1
        changed = await owner.app.router.receive(typed("hello!"))
        assert changed.outcome is Routed.ANSWERED
        assert "came before with another content" in owner.shown


async def test_a_message_too_long_or_too_many_is_refused_in_one_sentence(tmp_path: Path) -> None:
    limits = {"limits": {"message_characters": 10, "inbox_items": 2}}
    async with running(tmp_path, policy(blocks=limits), serve=False) as owner:
        assert (await owner.app.router.receive(typed("x" * 11))).outcome is Routed.ANSWERED
        assert "at most 10 characters" in owner.shown
        receipts = [await owner.app.router.receive(typed("x" * 10, dedupe=f"n{n}")) for n in range(3)]
        assert [receipt.outcome for receipt in receipts] == [Routed.ACCEPTED, Routed.ACCEPTED, Routed.ANSWERED]
        assert "busy, try again in a moment" in owner.shown
        assert (await owner.state()).waiting_items == 2


async def test_a_command_is_answered_at_once_and_leaves_no_session(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        receipt = await owner.app.router.receive(typed("/whoami"))
        assert receipt.outcome is Routed.ANSWERED
        assert "You are owner" in owner.shown
        assert await owner.app.store.sessions.state(owner.sid) is None


async def test_what_was_not_typed_by_its_sender_is_no_command_and_not_trusted(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        forwarded = Inbound(HOME, "console:owner", "/reset confirm", "f1", authored=False)
        assert (await owner.app.router.receive(forwarded)).outcome is Routed.ACCEPTED
        state = await owner.settled()
        assert state is not None
        assert (state.taint, state.generation) == (DIRTY, 1)
        assert "You said: /reset confirm" in owner.shown


async def test_what_a_person_types_is_trusted_and_public_here(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        (said,) = [event for event in await owner.events() if event.type is EventType.USER_MESSAGE]
        assert (said.label, said.actor, said.admitted) == (PUBLIC, "owner", True)


def opened(text: str, account: str = "console:owner", address: Address = HOME, *, authored: bool = True) -> Inbound:
    return Inbound(address, account, text, "o1", authored=authored, how=How.OPENED)


async def test_a_page_that_is_opened_shows_ones_own_sessions_as_far_as_it_may_be_told_there(tmp_path: Path) -> None:
    """What is above the page's clearance is not shown on it; whoever may know all of it sees all of it."""
    channels = {"console": {"classification": "INTERNAL", "overshoot": "allow"}}
    async with running(tmp_path, policy(channels=channels)) as owner:
        await owner.say("hello")
        receipt = await owner.app.router.receive(opened("/sessions"))
        assert receipt.outcome is Routed.ANSWERED
        shown = owner.shown.partition("hello")[2]
        assert owner.sid in shown
        assert "PUBLIC" in shown
        before = len(owner.shown)
        await owner.app.store.sessions.name(owner.sid, Title("the takeover", parse("CONFIDENTIAL")))
        await owner.app.router.receive(opened("/sessions"))
        assert owner.sid in owner.shown[before:]
        assert "takeover" not in owner.shown[before:]


async def test_opening_a_page_is_that_one_command_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for told in (
            *(opened(text) for text in ("hello", "", "/status", "/sessions kind=chat", "/reset confirm", "/approve a")),
            opened("/sessions", authored=False),
        ):
            assert (await owner.app.router.receive(told)).outcome is Routed.IGNORED
        assert owner.shown == ""


async def test_a_stranger_who_opens_a_page_learns_what_strangers_learn(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        told = opened("/sessions", "console:mallory", Address("console", "mallory"))
        assert (await owner.app.router.receive(told)).outcome is Routed.REFUSED
        assert owner.shown.strip().endswith(ASK_OWNER.format(account="console:mallory"))
        refused, _ = await owner.app.store.audit.records("audit")
        assert refused.body["ingress"] == "opened"


async def test_different_addresses_are_different_sessions(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        one = await owner.app.router.receive(typed("hello"))
        other = await owner.app.router.receive(typed("hello", address=GUEST))
        assert one.sid != other.sid


async def test_a_private_chat_that_is_another_persons_begins_anew_and_the_old_session_stays(tmp_path: Path) -> None:
    """An account that is given to somebody else takes nothing of its conversation along, and gives nothing to it."""
    home, account = Address("console", "desk"), "console:desk"

    def named(name: str) -> str:
        people = {
            "owner": principal("console:owner"),
            name: principal(account, role="admin"),
        }
        return policy(principals=people)

    async with running(tmp_path, named("ann")) as owner:
        ann = Person(owner.app, owner.output, home, account)
        assert "Veldhaven" in await ann.say(bang("read_file", path="confidential/pipeline.md"))
        first, before = ann.sid, await ann.state()
    async with running(tmp_path, named("ben")) as owner:
        ben = Person(owner.app, owner.output, home, account)
        for command in ("/history", "/taint", "/status", "/sessions"):
            await ben.send(command)
        receipt = await ben.send("hello")
        assert receipt.sid == await owner.app.session_ids.of(home, "ben") != first

        async def answered() -> bool:
            return "You said: hello" in ben.shown

        await eventually(answered)
        assert (await ben.send("/taint")).sid == receipt.sid
        assert "CONFIDENTIAL" not in ben.shown
        assert "Veldhaven" not in ben.shown
        state = await owner.app.store.sessions.state(receipt.sid)
        assert state is not None
        assert (state.principal, state.home, state.taint) == ("ben", str(home), PUBLIC)
        left = await ben.state()
        assert (left.principal, left.taint, left.seq) == ("ann", before.taint, before.seq)
    async with running(tmp_path, named("ann")) as owner:
        ann = Person(owner.app, owner.output, home, account)
        assert (await ann.send("and again")).sid == first
