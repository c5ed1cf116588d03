"""What people do on Slack reaches the application once, in order, and is acknowledged when it is kept."""

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from channels.messages import Address, How, Inbound, Membership, Outbound
from channels.messages import Button as Offered
from channels.slack.adapter import UNKNOWN_BUTTON
from tests.channels.contract import until
from tests.channels.slack.kit import FAST, SlackStage, at, staged

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[SlackStage]:
    async with staged() as made:
        yield made


@pytest.fixture
async def listened(played: SlackStage) -> AsyncGenerator[SlackStage]:
    async with played.serving():
        yield played


def inbound(played: SlackStage) -> Inbound:
    """Return the one thing that was told."""
    (told,) = played.got
    assert isinstance(told, Inbound)
    return told


# --- what is said


async def test_a_direct_message_is_told_with_who_wrote_it(listened: SlackStage) -> None:
    await listened.alice.says(listened.alice.dm(), "a &lt; b")
    told = inbound(listened)
    assert (told.address, told.text, told.private, told.addressed) == (listened.home, "a < b", True, True)
    assert told.account == f"slack:{listened.server.team.id}:{listened.alice.id}"


@pytest.mark.parametrize("mention_first", [True, False])
async def test_a_mention_is_one_turn_in_either_order(listened: SlackStage, *, mention_first: bool) -> None:
    listened.server.reach.mention_first = mention_first
    general = listened.server.channel("general", listened.alice)
    message = await listened.alice.mentions(general, "what's up?")
    told = inbound(listened)
    assert (told.address, told.text, told.addressed) == (at(general, message.ts), "what's up?", True)
    assert len(listened.server.reach.attempts) == 2


async def test_four_deliveries_of_both_events_are_one_turn(listened: SlackStage) -> None:
    listened.server.reach.extra = 3
    await listened.alice.mentions(listened.server.channel("general", listened.alice), "hello")
    assert len([one for one in listened.server.reach.attempts if not one.failed]) == 8
    inbound(listened)


async def test_a_mention_and_its_message_have_one_identity_for_other_processes(played: SlackStage) -> None:
    other = played.another()
    general = played.server.channel("general", played.alice)
    async with played.serving(), played.also(other):
        await played.alice.mentions(general, "hello")
        await until(lambda: len(played.got) == 2)
    first, second = played.got
    assert first == second
    await other.close()


async def test_a_command_is_done_by_one_process(played: SlackStage) -> None:
    other = played.another()
    async with played.serving(), played.also(other):
        await played.alice.mentions(played.server.channel("general", played.alice), "!status")
    assert inbound(played).text == "/status"
    await other.close()


async def test_what_cannot_be_kept_is_told_again(listened: SlackStage) -> None:
    listened.refusals, listened.vault.full = 2, True
    await listened.alice.says(listened.alice.dm(), "!status")
    assert [bool(one.failed) for one in listened.server.reach.attempts] == [True, True, False]
    assert inbound(listened).text == "/status"


async def test_a_command_that_nobody_can_claim_is_told_again(listened: SlackStage) -> None:
    listened.vault.broken = True
    listened.server.reach.again = (0.0,)
    await listened.alice.says(listened.alice.dm(), "!status")
    assert listened.got == []
    assert all(one.failed for one in listened.server.reach.attempts)


async def test_a_command_that_takes_longer_than_slack_waits_is_acknowledged_and_done_once() -> None:
    async with staged(timing=replace(FAST, patience=0.1)) as played, played.serving():
        played.server.reach.extra = 1
        played.pauses = [4.0]
        await played.alice.says(played.alice.dm(), "!status")
        assert [one.failed for one in played.server.reach.attempts] == ["", ""]
        assert played.got == []
        await until(lambda: played.got)
        await played.alice.runs("/lockgate status")
        assert len(played.got) == 2


@pytest.mark.parametrize("ends", ["it fails", "the process ends"])
async def test_a_command_that_could_not_be_done_after_all_is_nobodys(ends: str) -> None:
    async with staged(timing=replace(FAST, patience=0.1)) as played:
        async with played.serving():
            played.pauses, played.refusals, played.vault.full = [3.0 if ends == "it fails" else 120.0], 1, True
            await played.alice.says(played.alice.dm(), "!status")
            assert played.vault.values
            if ends == "it fails":
                await until(lambda: not played.vault.values)
        assert (played.vault.values, played.got) == ({}, [])


async def test_what_is_written_in_a_chat_stays_in_order(listened: SlackStage) -> None:
    listened.server.reach.patient = False
    # What comes first takes longest to keep.
    listened.pauses = [0.2, 0.1]
    for number in range(20):
        await listened.alice.says(listened.alice.dm(), str(number))
    await until(lambda: len(listened.got) == 20)
    assert [told.text for told in listened.got if isinstance(told, Inbound)] == [str(number) for number in range(20)]


async def test_changes_and_programs_and_what_others_say_are_no_turns(listened: SlackStage) -> None:
    general = listened.server.channel("general", listened.alice)
    message = await listened.alice.says(general, "for all")
    assert not inbound(listened).addressed
    await listened.alice.edits(message, f"<@{listened.server.bot.user}> do it")
    await listened.alice.deletes(message)
    await listened.adapter.send(Outbound(at(general), "from the bot", "k"))
    robot = listened.server.user("robot", is_bot=True)
    listened.server.state.join(general, robot.id)
    await robot.says(general, f"<@{listened.server.bot.user}> do it", bot_id="B1")
    await listened.alice.says(general, "joined", subtype="channel_join")
    assert len([told for told in listened.got if isinstance(told, Inbound)]) == 1


async def test_a_reply_to_the_bot_is_addressed_and_a_command_in_a_thread_is_one(listened: SlackStage) -> None:
    general = listened.server.channel("general", listened.alice)
    root = await listened.alice.says(general, "a thread of people")
    await listened.alice.says(general, "between us", thread=root)
    await listened.alice.says(general, "!status now", thread=root)
    await listened.adapter.send(Outbound(at(general), "from the bot", "k"))
    mine = listened.alice.messages(general)[-1]
    await listened.alice.says(general, "go on", thread=mine)
    *others, command, reply = (told for told in listened.got if isinstance(told, Inbound))
    assert not any(told.addressed for told in others)
    assert (command.text, command.address, command.addressed) == ("/status now", at(general, root.ts), True)
    assert (reply.text, reply.address, reply.addressed) == ("go on", at(general, mine.ts), True)


async def test_a_thread_of_a_private_chat_is_a_place_of_its_own(listened: SlackStage) -> None:
    root = await listened.alice.says(listened.alice.dm(), "one")
    await listened.alice.says(listened.alice.dm(), "two", thread=root)
    await listened.alice.stops(listened.alice.dm(), root)
    _, reply, stopped = (told for told in listened.got if isinstance(told, Inbound))
    assert (reply.address, reply.private) == (at(listened.alice.dm(), root.ts), True)
    assert (stopped.address, stopped.text, stopped.private) == (reply.address, "/stop", True)


# --- commands, buttons, the home


async def test_a_slash_command_is_answered_where_it_was_typed_alone(listened: SlackStage) -> None:
    general = listened.server.channel("general", listened.alice)
    for line, channel in (("/lockgate status", None), ("/lockgate", None), ("/lockgate approve x", general)):
        attempt = await listened.alice.runs(line, channel)
        assert (attempt.failed, attempt.answer) == ("", {})
    first, second, third = (told for told in listened.got if isinstance(told, Inbound))
    assert (first.text, first.address, first.private) == ("/status", listened.home, True)
    assert second.text == "/help"
    assert (third.text, third.address, third.private) == ("/approve x", at(general), False)


async def test_a_command_between_two_people_is_for_the_chat_with_the_bot(listened: SlackStage) -> None:
    bob = listened.server.user("bob")
    theirs = listened.server.state.im(listened.server.team.id, listened.alice.id, bob.id)
    await listened.alice.runs("/lockgate status", theirs)
    assert inbound(listened).address == listened.home


async def test_a_press_is_the_command_of_a_button_that_was_offered(listened: SlackStage) -> None:
    general = listened.server.channel("general", listened.alice)
    await listened.adapter.send(Outbound(at(general), "sure?", "k", buttons=(Offered("Yes", "/approve 7"),)))
    message = listened.alice.messages(general)[-1]
    (button,) = (each for block in message.blocks for each in block["elements"] if each["type"] == "button")
    await listened.alice.presses(message, button["action_id"])
    told = inbound(listened)
    assert (told.text, told.how, told.address, told.private) == (
        "/approve 7",
        How.BUTTON,
        at(general, message.ts),
        False,
    )


async def test_a_button_that_nothing_offered_says_so_to_the_presser_alone(listened: SlackStage) -> None:
    bob = listened.server.user("bob")
    general = listened.server.channel("general", listened.alice, bob)
    await listened.adapter.send(Outbound(at(general), "sure?", "k", buttons=(Offered("Yes", "/approve 7"),)))
    message = listened.alice.messages(general)[-1]
    copy = await bob.says(general, "a copy", blocks=message.blocks)
    listened.got.clear()
    (button,) = (each for block in copy.blocks for each in block["elements"] if each["type"] == "button")
    await listened.alice.presses(copy, button["action_id"])
    assert listened.got == []
    assert UNKNOWN_BUTTON in listened.alice.sees(general)
    assert UNKNOWN_BUTTON not in bob.sees(general)


async def test_opening_the_home_asks_for_what_it_shows(listened: SlackStage) -> None:
    await listened.alice.opens_home("messages")
    assert listened.got == []
    await listened.alice.opens_home()
    told = inbound(listened)
    home = Address("slack", listened.alice.id, listened.server.team.id, "home")
    assert (told.address, told.text, told.how, told.private) == (home, "/sessions", How.OPENED, True)


# --- who comes and goes


async def test_joins_and_leaves_are_told_with_the_workspace_of_whoever_it_is(listened: SlackStage) -> None:
    general = listened.server.channel("general", listened.alice)
    elsewhere = listened.server.workspace("elsewhere")
    guest = listened.server.user("eve", elsewhere)
    await guest.joins(general)
    await guest.leaves(general)
    account = f"slack:{elsewhere.id}:{guest.id}"
    told = [(one.address, one.account, one.joined) for one in listened.got if isinstance(one, Membership)]
    assert told == [(at(general), account, True), (at(general), account, False)]


async def test_somebody_of_another_workspace_is_not_taken_for_one_of_this(listened: SlackStage) -> None:
    elsewhere = listened.server.workspace("elsewhere")
    guest = listened.server.user("eve", elsewhere)
    general = listened.server.channel("general", listened.alice)
    await listened.server.share(general, elsewhere)
    listened.server.state.join(general, guest.id)
    await guest.mentions(general, "hello")
    (told,) = (one for one in listened.got if isinstance(one, Inbound))
    assert told.account == f"slack:{elsewhere.id}:{guest.id}"
