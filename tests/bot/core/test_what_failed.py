"""What fails is a warning with its cause and where that was: models, polls, sockets, deliveries, servers, the store."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai.messages import ToolCallPart

from bot.core.errors import StoreError
from bot.store.opening import open_store
from bot.store.options import StoreOptions
from channels.messages import Address, Attachment
from channels.port import AmbiguousSendError, BusyChannelError, ChannelError, GoneError
from channels.telegram.webhook import Webhook
from tests.bot.board import Board
from tests.bot.kit import Probe, Scripted, parts, policy
from tests.bot.mcp.servers import command, serving, shell
from tests.channels.contract import until
from tests.channels.slack.kit import FAST
from tests.channels.slack.kit import staged as slack
from tests.channels.telegram.kit import staged as telegram
from tests.harness import running
from tests.people import principal
from tests.sim.ports import free_port
from tests.store.world import KEY

pytestmark = pytest.mark.anyio

SAID = "hunter2 is what Ann said"
BOARD = policy(
    principals={"owner": principal("console:owner", "board:owner")},
    channels={"console": {"classification": "top"}, "board": {"classification": "top", "overshoot": "allow"}},
    recipients={},
)


class Heard:
    """What was logged, as far as it names a subject."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def all(self) -> list[dict[str, Any]]:
        return [{**vars(one), "event": one.msg} for one in self._caplog.records if hasattr(one, "subject")]

    def of(self, **facts: object) -> list[dict[str, Any]]:
        """Return the lines with these facts."""
        return [one for one in self.all if all(one.get(name) == fact for name, fact in facts.items())]


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Heard:
    return Heard(caplog)


async def soon(holds: Callable[[], object]) -> None:
    await until(lambda: bool(holds()))


async def test_a_poll_that_failed(heard: Heard) -> None:
    async with telegram() as played:
        there = f"127.0.0.1:{played.server.port}"
        async with played.serving():
            played.server.fails(method="getUpdates", status=401, told="Unauthorized", times=1)
            await soon(lambda: heard.of(event="a poll failed"))
        (line, *_) = heard.of(event="a poll failed")
        assert (line["subject"], line["address"], line["levelno"]) == ("channel telegram", there, logging.WARNING)
        assert line["cause"] == "Telegram does not accept the bot's token"
        assert "@BotFather" in line["step"]
        assert played.server.token not in str(heard.all)


async def test_an_update_that_could_not_be_kept(heard: Heard) -> None:
    async with telegram() as played:
        played.alice.says(None, SAID)
        played.refusals = 1
        async with played.serving():
            await soon(lambda: played.got)
    (line, *_) = heard.of(event="a chat is parked", subject=str(played.alice.id))
    assert line["levelno"] == logging.WARNING
    assert isinstance(line["exc_info"][1], OSError)


async def test_a_webhook_that_could_not_keep_an_update(heard: Heard) -> None:
    port = free_port()
    hook = Webhook(f"http://127.0.0.1:{port}/telegram", "a-secret-of-the-webhook", "127.0.0.1", port)
    async with telegram(webhook=hook) as played:
        played.refusals = 1
        async with played.serving():
            played.alice.says(None, SAID)
            await soon(lambda: played.got)
    (line, *_) = heard.of(event="a chat is parked", subject=str(played.alice.id))
    assert isinstance(line["exc_info"][1], OSError)


async def test_a_bot_that_cannot_begin(heard: Heard) -> None:
    async with telegram() as played:
        played.server.fails(method="getMe", status=502, times=1)
        async with played.serving():
            await soon(lambda: heard.all)
            assert heard.all[0]["cause"]
            assert heard.all[0]["address"] == f"127.0.0.1:{played.server.port}"


async def test_a_socket_that_cannot_be_opened(heard: Heard) -> None:
    async with slack() as played:
        played.server.fails("apps.connections.open", error="invalid_auth", times=1)
        async with played.serving():
            await soon(lambda: heard.of(event="a socket to Slack failed"))
    (line, *_) = heard.of(event="a socket to Slack failed")
    assert (line["subject"], line["levelno"]) == ("channel slack", logging.WARNING)
    assert line["cause"] == "Slack does not accept the bot's token"
    assert line["address"].startswith("127.0.0.1:")


async def test_a_socket_that_is_silent(heard: Heard) -> None:
    async with slack(timing=replace(FAST, quiet=0.3)) as played, played.serving():
        await soon(lambda: heard.of(cause="nothing came for 0.3 seconds"))


async def test_an_event_that_could_not_be_kept(heard: Heard) -> None:
    async with slack() as played, played.serving():
        played.refusals = 1
        await played.alice.says(played.alice.dm(), SAID)
        await soon(lambda: heard.of(event="a chat is parked"))
        assert SAID not in str([(one["event"], one.get("cause")) for one in heard.all])


@pytest.mark.parametrize(
    "error,state",
    [
        (ChannelError("refused"), "it was not seen"),
        (GoneError("the bot was blocked"), "it was not seen"),
        (AmbiguousSendError("the connection broke"), "nobody knows whether it was seen"),
    ],
)
async def test_a_text_that_was_not_delivered(tmp_path: Path, heard: Heard, error: ChannelError, state: str) -> None:
    board = Board(refuses=True, fails={"owner": [error]})
    async with running(tmp_path, BOARD, channels=[board]) as owner:
        there = replace(owner, address=Address("board", "owner"), account="board:owner")
        await there.send(SAID)
        await soon(lambda: heard.of(event="a text was not delivered"))
        (line,) = heard.of(event="a text was not delivered")
    assert (line["subject"], line["cause"], line["state"]) == ("channel board", str(error), state)
    assert line["destination"] == str(Address("board", "owner"))
    assert SAID not in str(line)


async def test_a_reply_of_a_command_that_was_not_delivered(tmp_path: Path, heard: Heard) -> None:
    board = Board(refuses=True, fails={"owner": [ChannelError("refused")]})
    async with running(tmp_path, BOARD, channels=[board]) as owner:
        there = replace(owner, address=Address("board", "owner"), account="board:owner")
        await there.send("/help")
    assert heard.of(event="a text was not delivered", cause="refused")


async def test_waiting_as_a_platform_asks_is_no_failure(tmp_path: Path, heard: Heard) -> None:
    board = Board(refuses=True, fails={"owner": [BusyChannelError(0.1)]})
    async with running(tmp_path, BOARD, channels=[board]) as owner:
        there = replace(owner, address=Address("board", "owner"), account="board:owner")
        await there.say(SAID)
    assert board.at("owner")
    assert not heard.all


async def test_a_server_that_cannot_be_started(heard: Heard) -> None:
    async with serving(command(command="/no/such/program")) as call:
        await call("search", word=SAID)
    (line, *_) = heard.of(subject="MCP server `notes`")
    assert (line["address"], line["levelno"]) == ("/no/such/program", logging.WARNING)
    assert line["cause"] == "No such file or directory"


async def test_a_server_that_refuses_and_one_that_goes(heard: Heard) -> None:
    async with serving(command()) as call:
        await call("wants")
        await call("crash")
        await asyncio.sleep(0.1)
    assert heard.of(event="a call of an MCP server failed", cause="the connection was closed")
    assert all(SAID not in str(one) for one in heard.all)
    async with serving(shell("sleep 60", start_seconds=1)) as call:
        await call("search", word=SAID)
    assert heard.of(address="/bin/sh", cause="it did not answer in time")
    async with serving({"url": "http://127.0.0.1:1/mcp", "tools": {}}) as call:
        await call("search", word=SAID)
    (line, *_) = heard.of(address="127.0.0.1:1")
    assert line["cause"] == "nothing listens there"


async def test_a_store_that_does_not_answer(heard: Heard) -> None:
    with pytest.raises(StoreError):
        await open_store(audit_key=KEY, url="redis://ann:secret@127.0.0.1:1/0", options=StoreOptions(timeout=0.5))
    (line, *_) = heard.of(subject="store")
    assert (line["address"], line["levelno"]) == ("127.0.0.1:1", logging.WARNING)
    assert line["cause"]
    assert "secret" not in str([(one["event"], one["cause"], one["address"]) for one in heard.all])


async def test_a_store_that_refuses(tmp_path: Path, heard: Heard) -> None:
    async with running(tmp_path, serve=False, embedded=True) as owner:
        connection = owner.app.store._shared.connection  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(StoreError):
            await connection.commands(("LPUSH", "lg:x", SAID), ("GET", "lg:x"))
    (line,) = heard.of(event="the store refused a command")
    assert line["address"] == "the embedded store"
    assert SAID not in str(line["cause"])


async def test_a_file_that_cannot_be_fetched(tmp_path: Path, heard: Heard) -> None:
    async with running(tmp_path) as owner:
        await owner.send("look", files=(Attachment("h", "a.txt", size=3),))
        await owner.settled()
    (line,) = heard.of(event="a file could not be fetched")
    assert line["subject"] == "channel console"
    assert line["cause"] == "nobody here can fetch it"


async def test_a_tool_that_breaks_and_one_that_cannot_be_decided(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(Probe):
        def declare(self, arguments: Any, context: Any) -> Any:  # noqa: ANN401 - the port's signature
            raise KeyError(SAID)

    calls = [ToolCallPart("probe", {"text": "x"}, "c1")]
    async with running(tmp_path, parts=parts(Odd(), model=Scripted(calls, "done"))) as owner:
        await owner.say("hello")
    assert "a call could not be decided" in [one.msg for one in caplog.records]


async def test_a_chat_whose_readers_are_not_known(heard: Heard) -> None:
    async with telegram() as played:
        played.vanish()
        audience = await played.adapter.audience(Address("telegram", "-100123"))
    assert not audience.complete
    (line,) = heard.of(event="it is not known who reads in a chat")
    assert (line["destination"], line["subject"]) == ("-100123", "channel telegram")
    with anyio.CancelScope():
        async with slack() as other:
            other.vanish()
            await other.adapter.audience(Address("slack", "C1", "T1"))
    assert heard.of(event="it is not known who reads in a chat", subject="channel slack")
