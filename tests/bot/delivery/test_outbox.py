"""What is said, once and only to whom it may be: checked again at the moment of sending."""

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.app.app import App
from bot.app.opening import open_app
from bot.config.load import load_config
from bot.core.ids import Ids
from bot.delivery.holding import Holding
from bot.delivery.outbox import WITHHELD_REPLY, Outbox
from bot.delivery.rate_limits import RATES, RateLimits
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from bot.sessions.models import Write
from bot.tools import catalogue
from channels.messages import Address, Outbound, OutboundKind, Signal
from channels.port import AmbiguousSendError, Audience, ChannelError
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, GUEST, HOME, INTERNAL, bang, eventually, handoff, policy, standing
from tests.harness import Person, running
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

CARD = "4111 1111 1111 1111"


@dataclass
class Wire:
    """A console played: it keeps what was sent, fails when told to, and says who reads."""

    name: str = "console"
    marks_repeats: bool = True
    marks_untrusted: bool = True
    fails: Exception | None = None
    readers: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    sent: list[Outbound] = field(default_factory=list[Outbound])
    previews: bool = True
    shown: list[Outbound] = field(default_factory=list[Outbound])

    async def send(self, outbound: Outbound) -> str:
        if self.fails is not None:
            raise self.fails
        self.sent.append(outbound)
        return ""

    async def preview(self, outbound: Outbound) -> None:
        self.shown.append(outbound)
        if self.fails is not None:
            raise self.fails

    async def signal(self, address: Address, signal: Signal) -> None:
        raise ChannelError(f"nobody sees {signal} at {address}")

    async def audience(self, address: Address) -> Audience:
        if self.readers:
            return Audience.of(*(self.readers.pop(0) if len(self.readers) > 1 else self.readers[0]))
        return Audience.of(f"console:{address.chat}")


@asynccontextmanager
async def opened(folder: Path, wire: Wire, config: str = "{}", *, embedded: bool = False) -> AsyncGenerator[App]:
    """Open an application that speaks over a played console; its worker does not run."""
    path = folder / "config.yaml"
    path.write_text(config)
    environment = await SERVERS.place(folder / "data", embedded=embedded)
    settings = await asyncio.to_thread(load_config, path, environment, catalogue.NAMES)
    async with open_app(settings, [wire], {}) as app:
        yield app


async def commit(app: App, text: str, label: Label = PUBLIC, address: Address = HOME, sender: str = "") -> str:
    """Commit something to be said, as a turn does; return its session."""
    sid = app.session_id(HOME)
    await app.store.sessions.accept(NewItem(sid, text, "owner", PUBLIC, SessionMessage("please"), str(HOME), "owner"))
    claim = await app.store.sessions.claim(sid, Ids().owner())
    assert claim is not None
    said = NewDelivery(f"key {text[:3]}", str(address), text, label, OutboundKind.ANSWER, "t")
    write = Write(Ids().op(), claim.state.seq, deliver=(said,), release=True)
    await app.store.sessions.commit(claim, write, sender=sender)
    return sid


async def states(app: App) -> list[DeliveryState]:
    return [entry.state for entry in await app.store.outbox.deliveries(app.session_id(HOME))]


async def test_what_was_committed_is_said_in_order_with_its_key(tmp_path: Path) -> None:
    wire = Wire()
    async with opened(tmp_path, wire) as app:
        for text in ("one", "two", "three"):
            await commit(app, text)
        await app.outbox.collect(app.session_id(HOME))
        assert [(said.text, said.key, said.address) for said in wire.sent] == [
            (text, f"key {text[:3]}", HOME) for text in ("one", "two", "three")
        ]
        assert await states(app) == [DeliveryState.SENT] * 3
        await app.outbox.collect(app.session_id(HOME))
        assert len(wire.sent) == 3


async def test_no_write_down_an_answer_is_withheld_when_its_readers_changed_since_it_was_committed(
    tmp_path: Path,
) -> None:
    wire = Wire(readers=[frozenset({"console:owner", "console:mallory"})])
    async with opened(tmp_path, wire) as app:
        sid = await commit(app, "the plan", CONFIDENTIAL)
        await app.outbox.collect(sid)
        assert wire.sent == []
        assert await states(app) == [DeliveryState.WITHHELD]
        row = (await app.store.audit.records(sid))[-1]
        assert (row.kind, row.actor, row.body["verdict"]) == ("withheld", "outbox", "BLOCK")
        assert "no_write_down" in str(row.body["rules"])
        assert "the plan" not in str(row.body)
        wire.readers = []
        await app.outbox.collect(sid)  # and it is not retried by itself
        assert wire.sent == []


async def test_an_answer_is_withheld_when_its_place_was_lowered_since_it_was_committed(tmp_path: Path) -> None:
    async with opened(tmp_path, Wire()) as app:
        await commit(app, "the plan", CONFIDENTIAL)
    lowered = policy(recipients={"owner": {"channel": "console", "chat": "owner", "clearance": "INTERNAL"}})
    async with running(tmp_path, lowered) as owner:

        async def withheld() -> bool:
            # The message that `commit` left is worked too, and what answers it is said after this.
            return (await states(owner.app))[:1] == [DeliveryState.WITHHELD]

        await eventually(withheld)
        assert "the plan" not in owner.shown
        assert "withheld" in [row.kind for row in await owner.app.store.audit.records(owner.sid)]


async def test_a_whole_turn_is_withheld_at_the_last_moment(tmp_path: Path) -> None:
    alone, overheard = frozenset({"console:owner"}), frozenset({"console:owner", "console:mallory"})
    wire = Wire(readers=[alone, alone, overheard])
    async with opened(tmp_path, wire) as app:
        owner = Person(app, io.StringIO())
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(app.serve())
            await owner.say(bang("read_file", path="confidential/pipeline.md"))
            serving.cancel()
        assert await states(app) == [DeliveryState.WITHHELD]
        assert "Veldhaven" not in str(wire.sent)


async def test_redaction_is_decided_again_too(tmp_path: Path) -> None:
    wire = Wire()
    async with opened(tmp_path, Wire()) as app:
        await commit(app, f"pay {CARD}")
    rules = [{"id": "no-cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "REDACT"}]
    async with opened(tmp_path, wire, policy(rules=rules)) as app:
        await app.outbox.collect(app.session_id(HOME))
        assert [said.text for said in wire.sent] == ["pay [redacted: payment-card]"]


async def test_a_send_of_which_nobody_knows_is_recorded_and_not_repeated(tmp_path: Path) -> None:
    wire = Wire(fails=AmbiguousSendError("who knows"))
    async with opened(tmp_path, wire) as app:
        sid = await commit(app, "hello")
        await app.outbox.collect(sid)
        wire.fails = None
        await app.outbox.collect(sid)
        assert await states(app) == [DeliveryState.AMBIGUOUS]
        assert wire.sent == []


@pytest.mark.parametrize("marks", [True, False])
async def test_a_send_whose_sender_vanished_is_repeated_only_where_it_can_be_marked(
    tmp_path: Path, *, marks: bool
) -> None:
    wire = Wire(marks_repeats=marks)
    async with opened(tmp_path, wire) as app:
        sid = app.session_id(HOME)
        entry = Delivery(
            sid,
            "k",
            str(HOME),
            "hello",
            PUBLIC,
            "answer",
            "t",
            DeliveryState.AMBIGUOUS,
            app.clock.wall_ms(),
            1,
            1,
            approved=(),
        )
        await app.outbox.deliver((entry,))
        assert [said.repeated for said in wire.sent] == ([True] if marks else [])


async def test_a_reply_is_judged_by_what_it_tells(tmp_path: Path) -> None:
    wire = Wire(readers=[frozenset({"console:mallory"})])
    async with opened(tmp_path, wire) as app:
        await app.outbox.reply(standing(), "the plan", INTERNAL)
        assert [said.text for said in wire.sent] == [WITHHELD_REPLY]
        await app.outbox.reply(standing(CONFIDENTIAL), "hello", PUBLIC)
        assert wire.sent[-1] == Outbound(HOME, "hello", "t1", OutboundKind.NOTICE, links=True)
        verdicts = [row.body["verdict"] for row in await app.store.audit.records("audit")]
        assert verdicts == ["BLOCK", "ALLOW", "ALLOW"]


async def test_where_not_even_that_may_be_said_a_reply_is_silence(tmp_path: Path) -> None:
    wire = Wire()
    async with opened(tmp_path, wire, policy(rules=[{"id": "quiet", "hook": "PRE_OUTPUT", "action": "BLOCK"}])) as app:
        await app.outbox.reply(standing(), "hello", PUBLIC)
        assert wire.sent == []
        assert len(await app.store.audit.records("audit")) == 2


async def test_a_reply_is_redacted_like_anything_said(tmp_path: Path) -> None:
    wire = Wire()
    rules = [{"id": "no-cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "REDACT"}]
    async with opened(tmp_path, wire, policy(rules=rules)) as app:
        await app.outbox.reply(standing(), CARD, PUBLIC)
        assert [said.text for said in wire.sent] == ["[redacted: payment-card]"]


async def test_a_signal_that_fails_or_has_no_channel_is_no_error(tmp_path: Path) -> None:
    async with opened(tmp_path, Wire()) as app:
        await app.outbox.signal(HOME, Signal.WORKING)
        await app.outbox.signal(Address("pigeon", "x"), Signal.WORKING)
        assert app.outbox.serves(str(GUEST))
        assert not app.outbox.serves("pigeon::x:")


async def test_what_belongs_to_no_channel_here_is_left_to_others(tmp_path: Path) -> None:
    async with opened(tmp_path, Wire()) as app:
        sid = await commit(app, "hello", address=Address("pigeon", "7"))
        await app.outbox.collect(sid)
        assert await states(app) == [DeliveryState.PENDING]
        elsewhere = Wire("pigeon")
        other = Outbox(
            store=app.store,
            channels={"pigeon": elsewhere},
            gate=app.gate,
            sender="other",
            handoff=handoff(app.store),
            holding=Holding(app.store, app.gate, app.clock),
            alternatives=app.alternatives,
            clock=app.clock,
            ids=app.ids,
            in_force=app.reloader.current,
            rate_limits=RateLimits(app.store.rate_limits, RATES),
            hours=24,
            telemetry=app.telemetry,
        )
        await other.collect(sid)
        assert [said.text for said in elsewhere.sent] == ["hello"]


@pytest.mark.parametrize("marks", [True, False])
async def test_a_text_from_outside_is_sent_only_where_it_is_marked_and_its_links_are_dead(
    tmp_path: Path, *, marks: bool
) -> None:
    wire = Wire(marks_untrusted=marks)
    async with opened(tmp_path, wire) as app:
        sid = await commit(app, "first")
        said = NewDelivery("k", str(HOME), "see https://a.example", PUBLIC, OutboundKind.MESSAGE, untrusted=True)
        await app.store.outbox.put(sid, said)
        await app.outbox.collect(sid)
        told = [(one.untrusted, one.links) for one in wire.sent]
        assert told == ([(False, True), (True, False)] if marks else [(False, True)])
        assert (await states(app))[-1] is (DeliveryState.SENT if marks else DeliveryState.FAILED)
