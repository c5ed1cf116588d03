"""How fast the outbox speaks: short waits in place, long ones in the store, and nothing overtakes what waits."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from bot.app.app import App
from bot.delivery.holding import Holding
from bot.delivery.outbox import Outbox
from bot.delivery.rate_limits import BACK_OFF, RATES, Patience, RateLimits, Rates
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery, Rate, SendSlot, question_key
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from channels.messages import Address, OutboundKind
from channels.port import BusyChannelError, ChannelError, GoneError
from policy.labels import PUBLIC, Label, parse
from tests.bot.delivery.test_outbox import Wire, opened
from tests.bot.kit import handoff, policy, standing
from tests.people import principal
from tests.store.world import pass_time

pytestmark = pytest.mark.anyio

HERE, THERE = Address("telegram", "1"), Address("telegram", "2")
FAST = {"telegram": Rates((Rate("chat", 1, 100),), (Rate("group", 60_000, 1),))}
SLOW = {"telegram": Rates((Rate("chat", 60_000, 1),))}
CHANNEL = policy(channels={"console": {"classification": "top"}, "telegram": {"classification": "PUBLIC"}})


def outbox(app: App, wire: Wire, rates: dict[str, Rates], sender: str = "me") -> Outbox:
    """Return an outbox that speaks over a played platform with rates."""
    return Outbox(
        store=app.store,
        channels={"telegram": wire},
        gate=app.gate,
        sender=sender,
        handoff=handoff(app.store),
        holding=Holding(app.store, app.gate, app.clock),
        alternatives=app.alternatives,
        clock=app.clock,
        ids=app.ids,
        in_force=app.reloader.current,
        rate_limits=RateLimits(app.store.rate_limits, rates),
        hours=24,
        telemetry=app.telemetry,
    )


async def put(app: App, sid: str, key: str, address: Address = HERE, label: Label = PUBLIC) -> None:
    """Leave something to be said in a session's outbox."""
    await app.store.sessions.accept(
        NewItem(sid, key, "owner", PUBLIC, SessionMessage("x"), f"console::{sid}:", "owner")
    )
    await app.store.outbox.put(sid, NewDelivery(key, str(address), key, label, OutboundKind.ANSWER, "t"))


async def fates(app: App, sid: str) -> dict[str, DeliveryState]:
    return {one.key: one.state for one in await app.store.outbox.deliveries(sid)}


def telegram() -> Wire:
    return Wire("telegram")


@pytest.fixture
def wire() -> Wire:
    return telegram()


async def test_what_a_platform_asks_to_wait_for_goes_back_and_nothing_overtakes_it(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        out = outbox(app, wire, FAST)
        for key in ("one", "two"):
            await put(app, "s1", key)
        await put(app, "s2", "three")
        await put(app, "s2", "elsewhere", THERE)
        wire.fails = BusyChannelError(30)
        await out.collect("s1")
        wire.fails = None
        await out.collect("s1")
        await out.collect("s2")
        assert await fates(app, "s1") == dict.fromkeys(("one", "two"), DeliveryState.PENDING)
        assert await fates(app, "s2") == {"three": DeliveryState.PENDING, "elsewhere": DeliveryState.SENT}
        assert [said.text for said in wire.sent] == ["elsewhere"]


async def test_a_platform_that_is_busy_everywhere_is_left_alone(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        out = outbox(app, wire, FAST)
        await put(app, "s1", "one")
        await put(app, "s2", "two", THERE)
        wire.fails = BusyChannelError(30, everywhere=True)
        await out.collect("s1")
        wire.fails = None
        await out.collect("s2")
        assert await fates(app, "s2") == {"two": DeliveryState.PENDING}
        assert wire.sent == []


async def test_after_the_wait_it_is_said_in_order(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        out = outbox(app, wire, FAST)
        for key in ("one", "two"):
            await put(app, "s1", key)
        wire.fails = BusyChannelError(0.05)
        await out.collect("s1")
        wire.fails = None
        deadline = time.monotonic() + 60
        while len(wire.sent) < 2 and time.monotonic() < deadline:
            await out.collect("s1")
        assert [said.text for said in wire.sent] == ["one", "two"]


async def test_a_short_wait_is_waited_and_a_long_one_holds_nobody(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        short = outbox(app, wire, {"telegram": Rates((Rate("chat", 300, 1),))})
        for key in ("one", "two"):
            await put(app, "s1", key)
        began = time.monotonic()
        await short.collect("s1")
        assert [said.text for said in wire.sent] == ["one", "two"]
        assert time.monotonic() - began >= 0.2
        long = outbox(app, wire, SLOW)
        for key in ("three", "four"):
            await put(app, "s2", key, THERE)
        began = time.monotonic()
        await long.collect("s2")
        assert time.monotonic() - began < 30
        assert await fates(app, "s2") == {"three": DeliveryState.SENT, "four": DeliveryState.PENDING}


async def test_a_group_has_a_rate_of_its_own(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire) as app:
        rate_limits, turn = RateLimits(app.store.rate_limits, FAST), SendSlot(str(HERE))
        waits = [await rate_limits.wait(turn, shared=shared, patience=Patience(0)) for shared in (True, False, True)]
        assert waits[:2] == [0, 0]
        assert waits[2]


async def test_where_there_are_no_rates_nothing_is_asked(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire) as app:
        rate_limits, turn = RateLimits(app.store.rate_limits, RATES), SendSlot("console::ann:", "s", "k")
        assert await rate_limits.wait(turn, shared=False, patience=Patience()) == 0
        assert await rate_limits.busy(turn, BusyChannelError(1)) >= 1000
        await rate_limits.gone(turn)
        assert await rate_limits.wait(turn, shared=False, patience=Patience()) == 0


async def test_what_is_dead_is_not_tried_until_somebody_is_heard_there(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        out = outbox(app, wire, FAST)
        for key in ("one", "two"):
            await put(app, "s1", key)
        wire.fails = GoneError("blocked")
        await out.collect("s1")
        wire.fails = None
        await put(app, "s2", "three")
        await out.collect("s2")
        assert [*(await fates(app, "s1")).values(), *(await fates(app, "s2")).values()] == [DeliveryState.FAILED] * 3
        assert wire.sent == []
        rows = [row for row in await app.store.audit.records("s1") if row.kind == "failed"]
        assert [row.body["key"] for row in rows] == ["one", "two"]
        await app.store.rate_limits.heard(str(HERE))
        await put(app, "s1", "four")
        await out.collect("s1")
        assert [said.text for said in wire.sent] == ["four"]


async def test_a_send_that_fails_is_tried_again_a_few_times_and_then_has_failed(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        out = outbox(app, wire, FAST)
        await put(app, "s1", "one")
        wire.fails = ChannelError("nobody saw it")
        (entry,) = await app.store.outbox.take("s1", "me", ("telegram",))
        for failures in range(len(BACK_OFF)):
            await out.deliver((replace(entry, failures=failures),))
            (entry,) = await app.store.outbox.deliveries("s1")
            assert (entry.state, entry.failures) == (DeliveryState.PENDING, failures + 1)
            assert await app.store.outbox.take("s1", "me", ("telegram",)) == ()
            entry = await taken(app, entry)
        await out.deliver((entry,))
        assert await fates(app, "s1") == {"one": DeliveryState.FAILED}
        assert (await app.store.audit.records("s1"))[-1].kind == "failed"


async def taken(app: App, entry: Delivery) -> Delivery:
    """Let the time come at which an entry is tried again, and take it."""
    await pass_time(app.store, entry.sid, entry.key)
    (again,) = await app.store.outbox.take(entry.sid, "me", ("telegram",))
    return again


async def test_what_waited_for_too_long_is_not_said_any_more_and_is_told_of(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        await put(app, "s1", "one")
        (entry,) = await app.store.outbox.take("s1", "me", ("telegram",))
        old = replace(entry, created_at=entry.created_at - 24 * 3_600_000 - 60_000)
        await outbox(app, wire, FAST).deliver((old,))
        assert await fates(app, "s1") == {"one": DeliveryState.EXPIRED}
        assert (await app.store.audit.records("s1"))[-1].kind == "expired"
        assert wire.sent == []


@pytest.mark.parametrize("label, links", [("PUBLIC", True), ("PUBLIC~", True), ("INTERNAL", False)])
async def test_links_may_be_followed_in_what_everybody_may_know(tmp_path: Path, label: str, links: bool) -> None:  # noqa: FBT001 - a case
    wire = telegram()
    everything = policy(
        channels={"console": {"classification": "top"}, "telegram": {"classification": "top"}},
        principals={"owner": principal("console:owner", "telegram:1")},
    )
    async with opened(tmp_path, wire, everything) as app:
        wire.readers = [frozenset({"telegram:1"})]
        await put(app, "s1", "one", label=parse(label))
        await outbox(app, wire, FAST).collect("s1")
        assert [said.links for said in wire.sent] == [links]


async def test_a_question_that_is_gone_has_no_buttons(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        await put(app, "s1", "one")
        for key in (question_key("t", "abc23456"), f"{question_key('t', 'abc23456')}-{HERE}"):
            await app.store.outbox.put("s1", NewDelivery(key, str(HERE), "may I?", PUBLIC, OutboundKind.QUESTION, "t"))
        await outbox(app, wire, FAST).collect("s1")
        assert [said.buttons for said in wire.sent] == [(), (), ()]


async def test_a_reply_that_has_to_wait_is_left_in_the_outbox(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        out, here = outbox(app, wire, SLOW), standing(home=HERE, sid="s1")
        await app.store.sessions.accept(NewItem("s1", "d", "owner", PUBLIC, SessionMessage("x"), str(HERE), "owner"))
        await out.reply(here, "first", PUBLIC)
        await out.reply(replace(here, turn="t2"), "second", PUBLIC)
        assert [said.text for said in wire.sent] == ["first"]
        assert [(one.text, one.state) for one in await app.store.outbox.deliveries("s1")] == [
            ("second", DeliveryState.PENDING)
        ]
        await out.reply(replace(here, sid="nobody", turn="t3"), "third", PUBLIC)
        assert len(wire.sent) == 1


async def test_a_reply_to_a_busy_platform_is_left_in_the_outbox(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        await app.store.sessions.accept(NewItem("s1", "d", "owner", PUBLIC, SessionMessage("x"), str(HERE), "owner"))
        wire.fails = BusyChannelError(30)
        await outbox(app, wire, FAST).reply(standing(home=HERE, sid="s1"), "first", PUBLIC)
        assert [one.text for one in await app.store.outbox.deliveries("s1")] == ["first"]


async def test_a_preview_waits_for_nothing_and_takes_no_turn(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        out, here = outbox(app, wire, SLOW), standing(home=HERE, sid="s1")
        for text in ("a", "b"):
            await out.preview(here, "k").show(text)
        assert [shown.text for shown in wire.shown] == ["a"]


async def test_a_preview_that_is_too_much_silences_the_chat(tmp_path: Path, wire: Wire) -> None:
    async with opened(tmp_path, wire, CHANNEL) as app:
        wire.fails = BusyChannelError(30)
        out = outbox(app, wire, FAST)
        await out.preview(standing(home=HERE, sid="s1"), "k").show("a")
        wire.fails = None
        await put(app, "s1", "one")
        await out.collect("s1")
        assert await fates(app, "s1") == {"one": DeliveryState.PENDING}


def test_what_the_platforms_take() -> None:
    assert set(RATES) == {"telegram", "slack"}
