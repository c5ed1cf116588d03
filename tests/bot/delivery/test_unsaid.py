"""What surely was not said is said once the store takes writes again; only what may have been said is in doubt."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.app.app import App
from bot.core.errors import StoreGoneError, StoreRefusedError
from bot.sessions.deliveries import DeliveryState
from bot.tools.base import ToolContext, ToolServices
from channels.messages import Address, Outbound
from channels.port import Audience, BusyChannelError
from tests.bot.clock import Hurried
from tests.bot.delivery.test_outbox import Wire, opened
from tests.bot.delivery.test_rate_limits import CHANNEL, FAST, HERE, THERE, fates, outbox, put
from tests.bot.kit import Probe, TextArguments, bang, eventually, parts, policy
from tests.clocks import LEASE_SECONDS
from tests.harness import running
from tests.store.world import command, pid_of

pytestmark = pytest.mark.anyio

BLOCKS = {"store": {"lease_seconds": LEASE_SECONDS}}


async def fill(app: App) -> None:
    """Let the store have no room for anything more."""
    await command(app.store, "CONFIG", "SET", "maxmemory", 1)


async def make_room(app: App) -> None:
    await command(app.store, "CONFIG", "SET", "maxmemory", 0)


@dataclass
class Trap(Wire):
    """A platform where something happens when it is asked who reads there, or behind a send."""

    asked: Callable[[], Awaitable[None]] | None = None
    behind: Callable[[], Awaitable[None]] | None = None

    async def audience(self, address: Address) -> Audience:
        if self.asked is not None:
            asked, self.asked = self.asked, None
            await asked()
        return await super().audience(address)

    async def send(self, outbound: Outbound) -> str:
        receipt = await super().send(outbound)
        if self.behind is not None:
            behind, self.behind = self.behind, None
            await behind()
        return receipt


async def test_what_a_full_store_kept_from_being_said_is_said_once_there_is_room(tmp_path: Path) -> None:
    wire = Trap("telegram", marks_repeats=False)
    async with opened(tmp_path, wire, CHANNEL, embedded=True) as app:
        out = outbox(app, wire, FAST)
        for key, there in (("one", HERE), ("two", HERE), ("three", THERE)):
            await put(app, "s1", key, there)
        wire.asked = lambda: fill(app)
        with pytest.raises(StoreRefusedError):
            await out.collect("s1")
        assert wire.sent == []
        with pytest.raises(StoreRefusedError):
            await out.catch_up()
        await make_room(app)
        await out.catch_up()
        assert await fates(app, "s1") == dict.fromkeys(("one", "two", "three"), DeliveryState.PENDING)
        await out.collect("s1")
        assert sorted(said.text for said in wire.sent) == ["one", "three", "two"]
        assert await fates(app, "s1") == dict.fromkeys(("one", "two", "three"), DeliveryState.SENT)


async def test_what_was_said_when_the_store_was_full_is_known_to_be_said(tmp_path: Path) -> None:
    wire = Trap("telegram", marks_repeats=False)
    async with opened(tmp_path, wire, CHANNEL, embedded=True) as app:
        out = outbox(app, wire, FAST)
        await put(app, "s1", "one")
        await put(app, "s1", "two")
        wire.behind = lambda: fill(app)
        with pytest.raises(StoreRefusedError):
            await out.collect("s1")
        assert [said.text for said in wire.sent] == ["one"]
        await make_room(app)
        await out.collect("s1")
        assert [said.text for said in wire.sent] == ["one", "two"]
        assert await fates(app, "s1") == dict.fromkeys(("one", "two"), DeliveryState.SENT)


async def test_one_in_doubt_that_was_not_shown_is_shown_later_with_its_mark(tmp_path: Path) -> None:
    wire = Trap("telegram")
    async with opened(tmp_path, wire, CHANNEL, embedded=True) as app:
        await put(app, "s1", "one")
        (entry,) = await app.store.outbox.take("s1", "gone", ("telegram",))
        await app.store.outbox.settle(entry, "gone", DeliveryState.AMBIGUOUS)
        (doubtful,) = await app.store.outbox.deliveries("s1")
        out = outbox(app, wire, FAST, "gone")
        wire.asked = lambda: fill(app)
        with pytest.raises(StoreRefusedError):
            await out.deliver((doubtful,))
        assert wire.sent == []
        await make_room(app)
        await out.collect("s1")
        assert [said.repeated for said in wire.sent] == [True]
        assert await fates(app, "s1") == {"one": DeliveryState.SENT}


@pytest.mark.parametrize(
    "marks, at_once, later", [(True, DeliveryState.PENDING, [True]), (False, DeliveryState.AMBIGUOUS, list[bool]())]
)
async def test_one_in_doubt_that_has_to_wait_is_shown_later_with_its_mark(
    tmp_path: Path, *, marks: bool, at_once: DeliveryState, later: list[bool]
) -> None:
    """A platform that is busy is no reason to leave a text in doubt, if its mark can tell that it may be there."""
    wire = Wire("telegram", marks_repeats=marks)
    async with opened(tmp_path, wire, CHANNEL) as app:
        await put(app, "s1", "one")
        (entry,) = await app.store.outbox.take("s1", "gone", ("telegram",))
        await app.store.outbox.settle(entry, "gone", DeliveryState.AMBIGUOUS)
        (doubtful,) = await app.store.outbox.deliveries("s1")
        out = outbox(app, wire, FAST, "gone")
        wire.fails = BusyChannelError(0.05)
        await out.deliver((doubtful,))
        assert await fates(app, "s1") == {"one": at_once}
        wire.fails = None

        async def shown() -> bool:
            await out.collect("s1")
            return [said.repeated for said in wire.sent] == later

        await eventually(shown)


async def test_a_text_whose_adapter_broke_is_in_doubt_and_those_beside_it_are_said(tmp_path: Path) -> None:
    wire = Trap("telegram", marks_repeats=False)
    async with opened(tmp_path, wire, CHANNEL, embedded=True) as app:
        out = outbox(app, wire, FAST)
        await put(app, "s1", "one")
        await put(app, "s1", "two", THERE)

        async def breaks() -> None:
            raise KeyError("a bug")

        wire.behind = breaks
        with pytest.raises(KeyError):
            await out.collect("s1")
        assert await fates(app, "s1") == {"one": DeliveryState.AMBIGUOUS, "two": DeliveryState.SENT}


async def test_what_is_claimed_and_not_told_is_claimed_again_and_said_once(tmp_path: Path) -> None:
    wire = Wire("telegram", marks_repeats=False)
    async with opened(tmp_path, wire, CHANNEL, embedded=True) as app:
        out = outbox(app, wire, FAST)
        await put(app, "s1", "one")
        # The claim is done, and its answer comes to nobody.
        pid = pid_of(app.store)
        assert app.store.server is not None
        app.store.server._clock = Hurried()  # pyright: ignore[reportPrivateUsage] - half a minute for a server to start
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreGoneError):
                await out.collect("s1")
        finally:
            os.kill(pid, signal.SIGCONT)
        assert await out.catch_up() == ("s1",)
        await out.collect("s1")
        assert [said.text for said in wire.sent] == ["one"]
        assert await fates(app, "s1") == {"one": DeliveryState.SENT}


async def test_an_answer_that_meets_a_full_store_is_said_once(tmp_path: Path) -> None:
    probe = Probe()

    async def full(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> None:
        if len(probe.ran) > 1:
            return
        await fill(owner.app)

        async def later() -> None:
            await asyncio.sleep(1)
            await make_room(owner.app)

        tasks.create_task(later())

    probe.does = full
    async with (
        asyncio.TaskGroup() as tasks,
        running(tmp_path, policy(blocks=BLOCKS), parts=parts(probe), embedded=True) as owner,
    ):
        await owner.send(bang("probe"))

        async def said() -> bool:
            return "done" in owner.shown

        await eventually(said)
        await owner.settled()
        assert owner.shown.count("done") == 1
        kept = await owner.app.store.outbox.deliveries(owner.sid)
        assert [one.state for one in kept] == [DeliveryState.SENT]
