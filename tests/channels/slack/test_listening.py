"""What people do on Slack reaches the application once, in order, and is acknowledged when it is kept."""

from collections.abc import AsyncGenerator

import pytest

from channels.message import Inbound
from tests.channels.slack.kit import SlackStage, at, staged, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[SlackStage]:
    async with staged() as made:
        yield made


async def test_a_direct_message_reaches_the_application(played: SlackStage) -> None:
    async with played.serving():
        await played.alice.says(played.alice.dm(), "hello")
    (inbound,) = played.got
    assert isinstance(inbound, Inbound)
    assert (inbound.address, inbound.text, inbound.private) == (played.home, "hello", True)
    assert inbound.account == f"slack:{played.server.team.id}:{played.alice.id}"


async def test_a_mention_is_told_twice_with_one_identity(played: SlackStage) -> None:
    general = played.server.channel("general", played.alice)
    async with played.serving():
        message = await played.alice.mentions(general, "what's up?")
    first, second = played.got
    assert first == second
    assert isinstance(first, Inbound)
    assert (first.address, first.text, first.addressed) == (at(general, message.ts), "what's up?", True)


async def test_what_cannot_be_kept_is_told_again(played: SlackStage) -> None:
    played.refusals = 2
    async with played.serving():
        await played.alice.says(played.alice.dm(), "hello")
        await until(lambda: played.got)
    assert len([one for one in played.server.reach.attempts if one.failed]) == 2
    assert len(played.got) == 1
