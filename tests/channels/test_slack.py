"""The Slack adapter keeps the contract of channels, against a Slack that is played on loopback."""

import logging
from collections.abc import AsyncGenerator

import pytest

from channels.messages import Outbound
from channels.port import ChannelError, Platform
from tests.channels.contract import ChannelContract, Listener, ListeningContract, Stage
from tests.channels.slack.kit import SlackStage, staged

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[SlackStage]:
    async with staged() as made:
        yield made


class TestSlack(ChannelContract):
    @pytest.fixture
    def stage(self, played: SlackStage) -> Stage:
        return played


class SlackListener(Listener):
    def __init__(self, played: SlackStage) -> None:
        self.channel = played.adapter
        self._played = played
        # Slack waits for minutes before it tells again: time enough for a new process.
        played.server.reach.again = (0.0, 0.5, 2.0)

    async def says(self, text: str, times: int = 1) -> None:
        self._played.server.reach.extra = times - 1
        await self._played.alice.says(self._played.alice.dm(), text)

    async def again(self) -> None:
        """Do nothing: Slack tells of an event again until it is acknowledged."""

    async def restarted(self) -> Platform:
        await self._played.adapter.close()
        self.channel = self._played.adapter = self._played.another()
        return self.channel


class TestSlackListening(ListeningContract):
    @pytest.fixture
    def listener(self, played: SlackStage) -> Listener:
        return SlackListener(played)


async def test_no_token_is_anywhere(played: SlackStage, caplog: pytest.LogCaptureFixture) -> None:
    token, app_token = played.server.bot.value, played.server.app_token
    caplog.set_level(logging.DEBUG)
    wrong = played.another(token=f"{token}-wrong")
    told = [repr(played.adapter), repr(wrong), repr(await wrong.troubles())]
    played.server.fails("chat.postMessage", status=502)
    for adapter in (wrong, played.adapter):
        with pytest.raises(ChannelError) as raised:
            await adapter.send(Outbound(played.home, "x", "k"))
        told += [str(raised.value), repr(raised.value)]
        assert raised.value.__suppress_context__
    await wrong.close()
    for name in ("slack", "slack_bolt", "slack_sdk", "aiohttp"):
        caplog.set_level(logging.DEBUG, name)
    async with played.serving():
        await played.alice.says(played.alice.dm(), "hello")
    assert "Sending a request" in caplog.text
    assert "ticket=<token>" in caplog.text
    assert not any(secret in "".join(told) + caplog.text for secret in (token, app_token, "ticket=t"))
