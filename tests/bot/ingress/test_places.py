"""`/classify` and blocking of chats: what is shown before and after, what bounds it, who may, and what it does."""

from pathlib import Path

import pytest

from bot.commands.admin import classify
from bot.core.errors import sentence
from bot.delivery.outbox import WITHHELD_REPLY
from channels.messages import Address, How, Inbound
from policy.document.overrides import ChatPlace
from policy.labels import PUBLIC, parse
from tests.bot.kit import policy
from tests.bot.rooms import Rooms
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

PEOPLE = {
    "owner": principal("console:owner"),
    "ada": principal("console:ada", "room:ada", role="admin", clearance="INTERNAL"),
    "ben": principal("console:ben", "room:ben", role="member", clearance="CONFIDENTIAL"),
}
CHANNELS = {"console": {"classification": "top"}, "room": {"classification": "CONFIDENTIAL"}}
CHATS = {
    "crew": {"channel": "room", "chat": "crew", "workspace": "w", "classification": "INTERNAL"},
    "shut": {"channel": "room", "chat": "shut", "classification": "INTERNAL", "blocked": True},
}
TEAM = Address("room", "team", "w", "thread")
UNANSWERED = "Messages there are labelled {}, and its readers may receive {} at most: the bot will not answer. {}"


def config(**more: object) -> str:
    return policy(**{"principals": PEOPLE, "channels": CHANNELS, "chats": CHATS, **more})


def rooms() -> Rooms:
    return Rooms({"team": frozenset({"room:ada", "room:ben"})})


async def here(owner: Person, there: Rooms, text: str, who: str = "ada", address: Address = TEAM) -> str:
    """Return what is said in a shared chat to a command."""
    before = len(there.sent)
    inbound = Inbound(address, f"room:{who}", text, f"{before}{text}", private=False)
    await owner.app.router.receive(inbound)
    return "\n".join(one.text for one in there.sent[before:] if one.address.place == address.place)


async def said(owner: Person, text: str) -> str:
    return (await owner.say(text, wait=False)).strip()


async def rows(owner: Person) -> list[tuple[object, ...]]:
    found = [row async for row in owner.app.chains.records("audit") if row.kind == "classify"]
    return [(row.actor, row.body["chat"], row.body["before"], row.body["after"]) for row in found]


async def test_a_chat_is_classified_in_the_chat_itself(tmp_path: Path) -> None:
    there = rooms()
    async with running(tmp_path, config(), serve=False, channels=[there]) as owner:
        assert (await owner.app.gate.readers.destination(TEAM)).clearance is None
        assert await here(owner, there, "/classify") == "Chat room:w:team is unclassified."
        told = await here(owner, there, "/classify INTERNAL")
        assert told == "Chat room:w:team was unclassified, and is classified INTERNAL."
        assert (await owner.app.gate.readers.destination(TEAM)).clearance == parse("INTERNAL")
        vouched = await here(owner, there, "/classify vouch")
        assert vouched.endswith("and is classified INTERNAL, its members vouched for.")
        again = await here(owner, there, "/classify vouch")
        assert again == "Nothing changed: chat room:w:team is classified INTERNAL, its members vouched for."
        chat = owner.app.gate.document.chat("room", "w", "team")
        assert chat is not None
        assert chat.members_vouched
        assert (await here(owner, there, "/classify unvouch")).endswith("and is classified INTERNAL.")
        assert (await here(owner, there, "/classify none")).endswith("and is unclassified.")
        assert (await owner.app.gate.readers.destination(TEAM)).clearance is None
        assert (await rows(owner))[0] == ("ada", "room:w:team", "unclassified", "classified INTERNAL")
        assert len(await rows(owner)) == 5


async def test_whoever_classifies_is_told_what_may_be_said_there_now(tmp_path: Path) -> None:
    """A platform that does not tell who reads there needs somebody who answers for them, and readers may be nobody."""
    there = rooms()
    there.complete = False
    async with running(tmp_path, config(), serve=False, channels=[there]) as owner:
        told = await here(owner, there, "/classify INTERNAL")
        assert told.startswith(
            "Chat room:w:team was unclassified, and is classified INTERNAL.\n"
            "Its readers are not known, and messages there are labelled INTERNAL: the bot will not answer."
        )
        (vouch,) = there.sent[-1].buttons
        assert vouch.command in told
        pressed = Inbound(TEAM, "room:ada", vouch.command, "pressed", private=False, how=How.BUTTON)
        await owner.app.router.receive(pressed)
        assert there.sent[-1].text.endswith("is classified INTERNAL, its members vouched for.")
        assert there.sent[-1].buttons == ()
        there.readers["team"] |= {"room:eve"}
        assert (await here(owner, there, "/classify")).endswith(
            "Messages there are labelled INTERNAL, and its readers may receive PUBLIC at most: "
            "the bot will not answer. "
            "Clear its readers, or type `/classify room:w:team PUBLIC` and then `/reset` there."
        )
        lowered = await here(owner, there, "/classify PUBLIC")
        assert lowered.endswith("and is classified PUBLIC, its members vouched for.")


@pytest.mark.parametrize(
    "readers,inbound,told",
    [
        ({"room:ada"}, "CONFIDENTIAL", UNANSWERED.format("CONFIDENTIAL", "INTERNAL", classify.INBOUND)),
        ({"room:ada", "room:eve"}, "INTERNAL", UNANSWERED.format("INTERNAL", "PUBLIC", classify.CLEAR_OR_INBOUND)),
        ({"room:ada", "room:eve"}, "PUBLIC", "Because of the readers there now, PUBLIC may be said there at most."),
        ({"room:ada"}, "PUBLIC", "is classified INTERNAL."),
    ],
    ids=["above the classification", "above the readers", "below both", "below, and all are cleared"],
)
async def test_the_label_of_messages_by_the_file_is_not_lowered_by_the_command(
    tmp_path: Path, readers: set[str], inbound: str, told: str
) -> None:
    """A classification changes nothing where `inbound` gives messages a label, even one above the classification."""
    there = Rooms({"crew": frozenset(readers)})
    chats = {"crew": {**CHATS["crew"], "inbound": inbound}}
    async with running(tmp_path, config(chats=chats), serve=False, channels=[there]) as owner:
        assert (await said(owner, "/classify crew")).endswith(told)


async def test_whoever_asks_is_told_what_everybody_may_hear_there_and_what_he_alone_may(tmp_path: Path) -> None:
    there = rooms()
    async with running(tmp_path, config(), serve=False, channels=[there]) as owner:
        place = Address("room", "team")
        before = await here(owner, there, "/whoami", address=place)
        assert before.endswith(
            f"Here is room:team, not classified. {classify.NOT_CLASSIFIED}"
            " Answers to you alone may be INTERNAL at most."
        )
        await here(owner, there, "/classify INTERNAL", address=place)
        after = await here(owner, there, "/whoami", "ben", place)
        assert after.endswith("Here is room:team, cleared for INTERNAL. Answers to you alone may be INTERNAL at most.")
        assert (await said(owner, "/whoami")).endswith("Here is console:owner, cleared for RESTRICTED~.")
        # Nothing but a console can be left.
        assert "quit" not in await here(owner, there, "/help", address=Address("room", "ada"))
        assert "Unknown command" in await here(owner, there, "/quit", address=Address("room", "ada"))


async def test_admins_put_a_policy_in_force_where_its_rules_may_not_be_shown(tmp_path: Path) -> None:
    there = rooms()
    channels = {**CHANNELS, "room": {"classification": "PUBLIC"}}
    async with running(tmp_path, config(channels=channels), serve=False, channels=[there]) as owner:
        alone = Address("room", "ada")
        assert await here(owner, there, "/policy", address=alone) == WITHHELD_REPLY
        assert (await here(owner, there, "/policy reload", address=alone)).endswith("is in force.")
        (tmp_path / "config.yaml").write_text("nothing: known")
        assert await here(owner, there, "/policy reload", address=alone) == WITHHELD_REPLY
    async with running(tmp_path, config(), serve=False, channels=[there]) as owner:
        assert "is in force, 0 rules of your own" in await here(owner, there, "/policy", address=alone)


async def test_a_chat_is_classified_by_naming_it(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        assert await said(owner, "/classify crew") == "Chat room:w:crew is classified INTERNAL."
        assert (await said(owner, "/classify crew PUBLIC")).endswith("and is classified PUBLIC.")
        file = classify.CUT.format(asked="RESTRICTED", by="config.yaml", most="INTERNAL")
        assert (await said(owner, "/classify room:w:crew RESTRICTED")).endswith(
            f"and is classified INTERNAL.\n  {file}"
        )
        channel = classify.CUT.format(asked="RESTRICTED", by="the channel `room`", most="CONFIDENTIAL")
        told = await said(owner, "/classify room:-7 RESTRICTED")
        assert told == f"Chat room:-7 was unclassified, and is classified CONFIDENTIAL.\n  {channel}"
        again = await said(owner, "/classify room:-7 CONFIDENTIAL")
        assert again == "Nothing changed: chat room:-7 is classified CONFIDENTIAL."
        for written in ("room::-7", "room:-7"):
            assert await said(owner, f"/classify {written}") == "Chat room:-7 is classified CONFIDENTIAL."
        for turned in ("/classify vouch room:-7", "/classify INTERNAL room:-7"):
            assert (await said(owner, turned)).startswith(f"{sentence(classify.CHAT_FIRST)} Write it as")
        assert await said(owner, "/classify crw") == "Unknown chat `crw`, did you mean `crew`?"
        assert await said(owner, "/classify rom:7 PUBLIC") == "Unknown channel `rom`, did you mean `room`?"
        assert "Unknown level `SECRET`" in await said(owner, "/classify crew SECRET")
        assert "Write it as `/classify [CHAT]" in await said(owner, "/classify a b c")
        assert owner.app.gate.document.chat("room", "", "-7") is not None


async def test_nobody_classifies_above_his_own_clearance(tmp_path: Path) -> None:
    there = rooms()
    async with running(tmp_path, config(), serve=False, channels=[there]) as owner:
        told = await here(owner, there, "/classify CONFIDENTIAL")
        assert told == "You are cleared for INTERNAL, and can classify no higher."
        assert owner.app.gate.document.chat("room", "w", "team") is None
        assert await rows(owner) == []


async def test_a_private_chat_is_not_classified(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        for text in ("/classify", "/classify PUBLIC", "/block", "/allow"):
            assert await said(owner, text) == classify.PRIVATE
        assert await rows(owner) == []


async def test_a_chat_that_is_not_classified_has_nobody_to_vouch_for(tmp_path: Path) -> None:
    async with running(tmp_path, config(), serve=False) as owner:
        assert "give it a level first" in await said(owner, "/classify room:7 vouch")


async def test_a_blocked_chat_is_told_nothing_above_public_until_it_is_allowed(tmp_path: Path) -> None:
    there = rooms()
    async with running(tmp_path, config(), serve=False, channels=[there]) as owner:
        await here(owner, there, "/classify INTERNAL")
        assert (
            await said(owner, "/block chat room:w:team") == "Chat room:w:team was classified INTERNAL, and is blocked."
        )
        assert (await owner.app.gate.readers.destination(TEAM)).clearance is None
        assert await said(owner, "/classify room:w:team none") == "Nothing changed: chat room:w:team is blocked."
        assert await said(owner, "/allow chat room:w:team") == "Chat room:w:team was blocked, and is unclassified."
        assert await here(owner, there, "/block") == "Chat room:w:team was unclassified, and is blocked."
        assert await here(owner, there, "/allow") == "Chat room:w:team was blocked, and is unclassified."
        assert await said(owner, "/allow chat shut") == classify.BY_FILE


async def test_members_may_none_of_it_and_hear_nothing_in_a_shared_chat(tmp_path: Path) -> None:
    there = rooms()
    async with running(tmp_path, config(), serve=False, channels=[there]) as owner:
        for text in ("/classify INTERNAL", "/block", "/allow"):
            assert await here(owner, there, text, "ben") == ""
        assert await rows(owner) == []


async def test_a_classification_the_file_no_longer_allows_is_lowered_or_void(tmp_path: Path) -> None:
    async with running(tmp_path, config(compartments=["hr"]), serve=False) as owner:
        assert (await said(owner, "/classify room:7 CONFIDENTIAL")).endswith("and is classified CONFIDENTIAL.")
        lower = {**CHANNELS, "room": {"classification": "PUBLIC"}}
        (tmp_path / "config.yaml").write_text(config(compartments=["hr"], channels=lower))
        await said(owner, "/policy reload")
        chat = owner.app.gate.document.chat("room", "", "7")
        assert chat is not None
        assert chat.classification == PUBLIC
        _, overrides = await owner.app.store.access.overrides()
        assert list(overrides.places) == [ChatPlace("room", "", "7")]


async def test_a_member_does_not_reset_a_shared_chat_though_he_alone_sees_the_answer(tmp_path: Path) -> None:
    there = rooms()
    async with running(tmp_path, config(), serve=False, channels=[there]) as owner:
        await here(owner, there, "/classify INTERNAL")
        await owner.app.router.receive(Inbound(TEAM, "room:ben", "hello", "m1", private=False))
        sid = owner.app.session_id(TEAM)
        assert await here(owner, there, "/reset confirm", "ben") == "In a shared chat a reset needs the role admin."
        state = await owner.app.store.sessions.state(sid)
        assert state is not None
        assert state.generation == 1
        await here(owner, there, "/reset confirm", "ada")
        state = await owner.app.store.sessions.state(sid)
        assert state is not None
        assert state.generation == 2
