"""Who reads in a conversation is what Slack tells of its members, and unknown where it cannot be told."""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import anyio
import pytest

from channels.messages import Address
from channels.port import Audience, Reader, ReaderKind
from tests.channels.contract import until
from tests.channels.slack.kit import SlackStage, at, staged
from tests.sim.slack_people import Person

pytestmark = pytest.mark.anyio

UNKNOWN = Audience(frozenset(), complete=False, shared=True)


@pytest.fixture
async def played() -> AsyncGenerator[SlackStage]:
    async with staged() as made:
        yield made


def reader(person: Person, kind: ReaderKind = ReaderKind.MEMBER) -> Reader:
    return Reader(f"slack:{person.member.team}:{person.id}", kind)


def together(*readers: Reader | Iterable[Reader], complete: bool = True) -> Audience:
    flat = [one for each in readers for one in ([each] if isinstance(each, Reader) else each)]
    return Audience(frozenset(flat), complete=complete, shared=True)


async def test_a_private_chat_has_one_reader(played: SlackStage) -> None:
    alone = Audience(frozenset({reader(played.alice)}), complete=True)
    team = played.server.team.id
    for address in (
        played.home,
        at(played.alice.dm(), "1.1"),
        Address("slack", played.alice.id, team),
        Address("slack", played.alice.id, team, "home"),
        at(played.server.channel("general", played.alice), recipient=played.alice.id),
    ):
        assert await played.adapter.audience(address) == alone


@pytest.mark.parametrize(
    "facts, kind",
    [
        ({}, ReaderKind.MEMBER),
        ({"is_restricted": True}, ReaderKind.GUEST),
        ({"is_ultra_restricted": True}, ReaderKind.GUEST),
        ({"is_stranger": True}, ReaderKind.STRANGER),
        ({"is_bot": True}, ReaderKind.BOT),
    ],
)
async def test_members_are_what_slack_says_they_are(
    played: SlackStage, facts: dict[str, Any], kind: ReaderKind
) -> None:
    bob, gone = played.server.user("bob", **facts), played.server.user("gone", deleted=True)
    group = played.server.channel("group", played.alice, bob, gone, kind="private")
    assert await played.adapter.audience(at(group)) == together(reader(played.alice), reader(bob, kind))


async def test_a_group_message_has_its_members(played: SlackStage) -> None:
    bob = played.server.user("bob")
    several = played.server.state.im(played.server.team.id, played.alice.id, bob.id, played.server.bot.user)
    assert await played.adapter.audience(at(several)) == together(reader(played.alice), reader(bob))


async def test_in_a_public_channel_everybody_of_the_workspace_may_read(played: SlackStage) -> None:
    anybody = Reader(f"slack:{played.server.team.id}:*", ReaderKind.MEMBER)
    general = played.server.channel("general", played.alice)
    assert await played.adapter.audience(at(general)) == together(reader(played.alice), anybody)


async def test_a_shared_channel_has_strangers(played: SlackStage) -> None:
    async with played.serving():
        elsewhere = played.server.workspace("elsewhere")
        eve = played.server.user("eve", elsewhere)
        general = played.server.channel("general", played.alice)
        home = Reader(f"slack:{played.server.team.id}:*", ReaderKind.MEMBER)
        before = await played.adapter.audience(at(general))
        assert before.complete
        await played.server.share(general, elsewhere)
        await eve.joins(general)
        away = Reader(f"slack:{elsewhere.id}:*", ReaderKind.STRANGER)
        expected = together(reader(played.alice), reader(eve, ReaderKind.STRANGER), home, away)
        assert await played.adapter.audience(at(general)) == expected
        await played.server.unshare(general, elsewhere)
        assert await played.adapter.audience(at(general)) == before


async def test_who_shares_a_private_channel_lets_in_whom_they_like(played: SlackStage) -> None:
    elsewhere = played.server.workspace("elsewhere")
    group = played.server.channel("group", played.alice, kind="private")
    await played.server.share(group, elsewhere)
    anybody = Reader(f"slack:{elsewhere.id}:*", ReaderKind.STRANGER)
    assert await played.adapter.audience(at(group)) == together(reader(played.alice), anybody)


async def test_a_channel_that_is_offered_to_others_is_unknown_until_they_answer(played: SlackStage) -> None:
    group = played.server.channel("group", played.alice, kind="private")
    await played.server.share(group, played.server.workspace("elsewhere"), accepted=False)
    assert await played.adapter.audience(at(group)) == together(reader(played.alice), complete=False)
    group.pending.clear()
    assert await played.adapter.audience(at(group)) == together(reader(played.alice))


async def test_another_workspace_of_the_same_organisation_is_another_one(played: SlackStage) -> None:
    played.server.team.enterprise = "E1"
    eve = played.server.user("eve", played.server.workspace("sister", "E1"))
    group = played.server.channel("group", played.alice, eve, kind="private")
    expected = together(reader(played.alice), reader(eve, ReaderKind.STRANGER))
    assert await played.adapter.audience(at(group)) == expected


async def test_who_joins_or_leaves_counts_at_once_and_otherwise_nothing_is_asked_twice(played: SlackStage) -> None:
    bob = played.server.user("bob", is_restricted=True)
    group = played.server.channel("group", played.alice, kind="private")
    async with played.serving():
        alone = await played.adapter.audience(at(group))
        asked = len(played.server.calls)
        assert await played.adapter.audience(at(group, "1.1")) == alone
        assert len(played.server.calls) == asked
        await bob.joins(group)
        assert reader(bob, ReaderKind.GUEST) in (await played.adapter.audience(at(group))).readers
        await bob.leaves(group)
        assert await played.adapter.audience(at(group)) == alone


async def test_who_becomes_a_guest_counts_as_one_at_once(played: SlackStage) -> None:
    group = played.server.channel("group", played.alice, kind="private")
    async with played.serving():
        assert await played.adapter.audience(at(group)) == together(reader(played.alice))
        await played.alice.becomes(is_restricted=True)
        assert await played.adapter.audience(at(group)) == together(reader(played.alice, ReaderKind.GUEST))


async def test_who_joins_while_it_is_asked_counts_the_next_time(played: SlackStage) -> None:
    bob = played.server.user("bob", is_restricted=True)
    group = played.server.channel("group", played.alice, kind="private")
    async with played.serving(), anyio.create_task_group() as tasks:
        played.server.fails("users.info", delay=0.3)
        tasks.start_soon(played.adapter.audience, at(group))
        await until(lambda: [one for one in played.server.calls if one.method == "conversations.members"])
        await bob.joins(group)
        assert reader(bob, ReaderKind.GUEST) in (await played.adapter.audience(at(group))).readers
        await anyio.sleep(0.5)
        assert reader(bob, ReaderKind.GUEST) in (await played.adapter.audience(at(group))).readers


async def test_many_members_are_read_page_by_page(played: SlackStage) -> None:
    people = [played.server.user(f"person{number}") for number in range(450)]
    group = played.server.channel("group", *people, kind="private")
    assert await played.adapter.audience(at(group)) == together(map(reader, people))
    pages = [call for call in played.server.calls if call.method == "conversations.members"]
    assert len(pages) == 3


async def test_more_members_than_are_looked_at_are_unknown(played: SlackStage) -> None:
    people = [played.server.user(f"person{number}") for number in range(1_001)]
    group = played.server.channel("group", *people, kind="private")
    assert not (await played.adapter.audience(at(group))).complete


@pytest.mark.parametrize("method", ["auth.test", "conversations.info", "conversations.members"])
async def test_what_cannot_be_asked_is_unknown_and_asked_again(played: SlackStage, method: str) -> None:
    group = played.server.channel("group", played.alice, kind="private")
    played.server.fails(method, status=500)
    assert await played.adapter.audience(at(group)) == UNKNOWN
    assert (await played.adapter.audience(at(group))).complete


async def test_a_member_that_nobody_can_tell_of_makes_it_incomplete(played: SlackStage) -> None:
    bob = played.server.user("bob")
    group = played.server.channel("group", played.alice, bob, kind="private")
    played.server.fails("users.info", status=429)
    first = await played.adapter.audience(at(group))
    assert (len(first.readers), first.complete) == (1, False)
    assert await played.adapter.audience(at(group)) == together(reader(played.alice), reader(bob))


async def test_where_the_bot_is_not_is_unknown(played: SlackStage) -> None:
    elsewhere = played.server.workspace("elsewhere")
    theirs = played.server.channel("theirs", kind="private", bot=False)
    for address in (
        played.nowhere,
        at(theirs),
        Address("slack", played.alice.dm().id),
        Address("slack", played.alice.dm().id, elsewhere.id),
        Address("slack", "U0NOBODY", played.server.team.id),
    ):
        assert await played.adapter.audience(address) == UNKNOWN
