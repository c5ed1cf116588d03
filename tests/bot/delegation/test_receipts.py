"""What became of what was sent: told to who sent it, as far as its target may be known of, and constant otherwise."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from bot.core.ids import receipt_id
from bot.delegation.receipts import UNKNOWN, WITHHELD, DeliveryReceipt, look_up
from bot.delivery.outbox import WITHHELD_REPLY
from bot.sessions.background.delegation import SESSION, Arrival
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery, answer_key
from bot.sessions.log.event_types import ItemHeld, ToolResult, UserMessage
from bot.sessions.messages import Origin, OriginKind
from bot.sessions.models import Write
from bot.sessions.transcript import place
from bot.store.schema import session_keys
from bot.tools.sessions import ALONE
from channels.messages import Address
from policy.labels import PUBLIC, Label
from tests.bot.delivery.test_sending import POLICY, READS, at, hears, send
from tests.bot.kit import CONFIDENTIAL, bang, eventually, handoff, policy
from tests.events import bodies
from tests.harness import Person, running
from tests.store.world import command, put_state

pytestmark = pytest.mark.anyio

BARE: Final = policy(**POLICY)


def ask(receipt: str) -> str:
    return bang("session_status", receipt=receipt)


async def put(owner: Person, there: Person, *, text: str = "hi", label: Label = PUBLIC, deliver: bool = True) -> str:
    """Put something for another session into the outbox of the owner's; return the receipt."""
    target = await there.app.store.sessions.state(there.sid)
    generation = 1 if target is None else target.generation
    key = owner.app.ids.op()
    new = NewDelivery(key, str(Address(SESSION, there.sid, "owner", str(generation))), text, label, "message", hops=1)
    await owner.app.store.outbox.put(owner.sid, new)
    if deliver:
        await owner.app.outbox.collect(owner.sid)
    return receipt_id(key)


async def told(person: Person, receipt: str) -> dict[str, object]:
    """Ask by command; return what is told beside the receipt, which comes back as it was asked for."""
    shown = await person.say(f"/status {receipt}", wait=False)
    answer = json.loads(shown[shown.index("{") :])
    assert answer.pop("receipt") == receipt
    return answer


@asynccontextmanager
async def two(folder: Path, config: str = BARE) -> AsyncGenerator[tuple[Person, Person]]:
    """Run an application without a worker, with a conversation and another one of the same person's begun."""
    async with running(folder, config, serve=False) as owner:
        desk = at(owner, "desk")
        await owner.send("hello")
        await desk.send("hello")
        yield owner, desk


@asynccontextmanager
async def worked(person: Person) -> AsyncGenerator[None]:
    """Let a worker run meanwhile, and wait until all is still."""
    serving = asyncio.create_task(person.app.serve())
    try:
        yield
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_a_receipt_goes_from_accepted_to_consumed(tmp_path: Path) -> None:
    async with two(tmp_path, policy(**POLICY, blocks={"limits": {"inbox_items": 1}})) as (owner, desk):
        await owner.app.store.sessions.reset(desk.sid, op="o", actor="owner", audit=())
        await desk.send("hello again")
        await owner.say(f"/send {desk.sid} this fills what sessions may have waiting there", wait=False)
        shown = await owner.say(f"/send {desk.sid} hi", wait=False)
        (receipt,) = re.findall("receipt-[a-z2-7]{16}", shown)
        assert await told(owner, receipt) == {"status": "accepted"}
        await owner.app.store.sessions.stop(desk.sid, actor="owner")
        await owner.app.outbox.collect(owner.sid)
        assert await told(owner, receipt) == {"status": "delivered"}
        async with worked(owner):
            assert await hears(desk) == ["hi"]
        state = await desk.state()
        (heard,) = [
            event
            for event in await desk.events()
            if event.body == UserMessage("hi", Origin(OriginKind.MESSAGE, owner.sid))
        ]
        # The place where `/history` shows it, which counts nothing of what was before the reset.
        assert await told(owner, receipt) == {"status": "consumed", "seq": place(heard, state)}
        assert state.generation_seq > 1


async def test_an_agent_asks_with_the_receipt_it_was_given(tmp_path: Path) -> None:
    async with running(tmp_path, BARE) as owner:
        desk = at(owner, "desk")
        await desk.say("hello")
        shown = await owner.say(send(desk.sid, "please look"))
        receipt = receipt_id((await sent(owner))[0].key)
        assert f'{{"status": "accepted", "receipt": "{receipt}"}}' in shown
        await hears(desk)
        assert '{"status": "consumed", "receipt": "' in await owner.say(ask(receipt))
        assert ALONE in await owner.say(bang("session_status", receipt=receipt, session_id=desk.sid))


async def sent(person: Person) -> list[Delivery]:
    """Return what a session sent to others, oldest first."""
    found = await person.app.store.outbox.deliveries(person.sid)
    return [one for one in found if Address.parse(one.address).channel == SESSION]


async def test_one_that_a_turn_has_begun_with_is_delivered(tmp_path: Path) -> None:
    async with two(tmp_path) as (owner, desk):
        store = owner.app.store
        await store.sessions.stop(desk.sid, actor="owner")
        receipt = await put(owner, desk)
        claim = await store.sessions.claim(desk.sid, "w")
        assert claim is not None
        await store.sessions.record(claim, Write("o", claim.state.seq, take=claim.items[0].position))
        assert await told(owner, receipt) == {"status": "delivered"}


async def test_a_reset_overtakes_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (owner, desk):
        delivered, under_way = await put(owner, desk), await put(owner, desk, deliver=False)
        assert await told(owner, under_way) == {"status": "accepted"}
        await owner.app.store.sessions.reset(desk.sid, op="o", actor="owner", audit=())
        failed = {"status": "failed", "code": "reset"}
        assert await told(owner, delivered) == await told(owner, under_way) == failed
        await owner.app.outbox.collect(owner.sid)
        assert [one.arrival for one in await sent(owner)] == [Arrival.WAITING, Arrival.RESET]
        assert await told(owner, under_way) == failed


async def test_what_was_consumed_before_a_reset_is_forgotten_with_it(tmp_path: Path) -> None:
    """Whether it was read or withdrawn up there tells of a conversation that may have been too high to know of."""
    async with two(tmp_path) as (owner, desk):
        consumed = await put(owner, desk)
        async with worked(owner):
            await hears(desk)
        cancelled = await put(owner, desk)
        await owner.app.store.sessions.stop(desk.sid, actor="owner")
        await owner.app.store.sessions.reset(desk.sid, op="o", actor="owner", audit=())
        assert await told(owner, consumed) == await told(owner, cancelled) == {"status": "failed", "code": "reset"}


async def test_an_archived_target_fails_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (owner, desk):
        delivered, under_way = await put(owner, desk), await put(owner, desk, deliver=False)
        await put_state(owner.app.store, desk.sid, status="archived")
        failed = {"status": "failed", "code": "archived"}
        assert await told(owner, delivered) == await told(owner, under_way) == failed
        await owner.app.outbox.collect(owner.sid)
        assert await told(owner, under_way) == failed
        assert [one.arrival for one in await sent(owner)] == [Arrival.WAITING, Arrival.ARCHIVED]


async def test_what_its_target_is_stopped_before_is_cancelled(tmp_path: Path) -> None:
    async with two(tmp_path) as (owner, desk):
        receipt = await put(owner, desk)
        await owner.app.store.sessions.stop(desk.sid, actor="owner")
        assert await told(owner, receipt) == {"status": "failed", "code": "cancelled"}


async def test_one_that_the_policy_keeps_out_is_rejected(tmp_path: Path) -> None:
    rule = {"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "BLOCK"}
    async with two(tmp_path, policy(**POLICY, rules=[rule])) as (owner, desk):
        receipt = await put(owner, desk, text="4111 1111 1111 1111")
        async with worked(owner):
            await desk.settled()
        assert await told(owner, receipt) == {"status": "failed", "code": "rejected"}


async def test_one_that_the_policy_stops_on_the_way_is_withheld(tmp_path: Path) -> None:
    rule = {"id": "no-cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "BLOCK"}
    async with two(tmp_path, policy(**POLICY, rules=[rule])) as (owner, desk):
        receipt = await put(owner, desk, text="4111 1111 1111 1111")
        assert await told(owner, receipt) == {"status": "failed", "code": WITHHELD}
        assert [one.state for one in await sent(owner)] == [DeliveryState.WITHHELD]


async def test_a_task_that_ends_before_it_comes_fails_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (owner, desk):
        receipt = await put(owner, desk, deliver=False)
        await put_state(owner.app.store, desk.sid, ended=1)
        await owner.app.outbox.collect(owner.sid)
        assert await told(owner, receipt) == {"status": "failed", "code": "ended"}


@pytest.mark.parametrize("decided", ["accept", "drop", "reset"])
async def test_what_was_held_stays_accepted_whatever_becomes_of_it(tmp_path: Path, decided: str) -> None:
    async with two(tmp_path) as (owner, desk):
        store = owner.app.store
        receipt = await put(owner, desk, label=CONFIDENTIAL)
        accepted = {"status": "accepted"}
        assert await told(owner, receipt) == accepted
        (held,) = await store.delegation.held(desk.sid)
        if decided == "reset":
            await store.sessions.reset(desk.sid, op="o", actor="owner", audit=())
        else:
            await desk.say(f"/held {decided} {held.id}", wait=False)
            async with worked(owner):
                await desk.settled()
                assert (await hears(desk, 0) == ["hi"]) is (decided == "accept")
        assert await store.delegation.held(desk.sid) == ()
        assert await told(owner, receipt) == accepted


async def test_one_too_many_to_hold_is_as_one_held(tmp_path: Path) -> None:
    async with two(tmp_path) as (owner, desk):
        receipts = [await put(owner, desk, label=CONFIDENTIAL) for _ in range(51)]
        assert [one.arrival for one in await sent(owner)][-2:] == [Arrival.HELD, Arrival.UNTOLD]
        assert await told(owner, receipts[-1]) == {"status": "accepted"}


async def test_of_a_target_that_is_too_high_nothing_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, BARE) as owner:
        desk = at(owner, "desk")
        for person in (owner, desk):
            await person.say("hello")
        receipt = await put(owner, desk)
        await hears(desk)
        known = await owner.say(ask(receipt))
        assert '"consumed"' in known
        await desk.say(READS)
        hidden = await owner.say(ask(receipt))
        assert f'{{"status": "accepted", "receipt": "{receipt}"}}' in hidden
        # The person may know of it here, and so may the conversation once it has read as much.
        assert (await told(owner, receipt))["status"] == "consumed"
        await owner.say(READS)
        assert '"consumed"' in await owner.say(ask(receipt))
        lobby = at(owner, "lobby")
        await lobby.say("hello")
        low = await put(lobby, desk)
        await eventually(lambda: arrived(lobby))
        assert await told(lobby, low) == {"status": "accepted"}


async def arrived(person: Person) -> bool:
    return all(one.arrival for one in await sent(person))


async def test_of_what_a_child_sends_its_parent_it_hears_nothing_more(tmp_path: Path) -> None:
    async with running(tmp_path, BARE) as owner:
        await owner.say(bang("sessions_spawn", task=send("parent", "half way")))
        await hears(owner, 2)
        (slot,) = await owner.app.store.delegation.slots("owner")
        child = await owner.app.store.sessions.state(slot.sid)
        assert child is not None
        way = (await owner.app.store.outbox.deliveries(slot.sid))[0]
        assert way.arrival is Arrival.WAITING
        receipt = await look_up(owner.app.store, child, receipt_id(way.key), owner.app.config.policy.top)
        assert receipt == DeliveryReceipt(receipt_id(way.key))


async def answered(person: Person, receipt: str) -> object:
    """Return what the session is told that asks for a receipt."""
    await person.say(ask(receipt))
    return [event.body.text for event in await person.events() if isinstance(event.body, ToolResult)][-1]


async def test_a_receipt_is_its_senders_alone(tmp_path: Path) -> None:
    async with running(tmp_path, BARE) as owner:
        desk, ann = at(owner, "desk"), at(owner, "ann")
        for person in (desk, ann):
            await person.say("hello")
        await owner.say(send(desk.sid, "hi"))
        receipt = receipt_id((await sent(owner))[0].key)
        assert receipt in str(await answered(owner, receipt))
        state = await owner.state()
        assert state.last_turn is not None
        said = receipt_id(answer_key(state.last_turn.id))
        assert {await answered(who, receipt) for who in (desk, ann)} == {UNKNOWN}
        assert {await answered(owner, name) for name in ("invented", said, "")} == {UNKNOWN}
        assert f"{UNKNOWN}\n" in await desk.say(f"/status {receipt}")
        await owner.app.store.sessions.reset(owner.sid, op="o", actor="owner", audit=())
        assert await answered(owner, receipt) == UNKNOWN


@pytest.mark.parametrize("text", ["secret", "", "y" * 40_001])
async def test_what_was_sent_by_reference_has_no_receipt_below(tmp_path: Path, text: str) -> None:
    async with running(tmp_path, BARE) as owner:
        desk = at(owner, "desk")
        await desk.say("hello")
        (tmp_path / "data/files/confidential/s.md").write_text(text, "utf-8")
        await owner.say(bang("read_file", path="confidential/s.md", _hold=True))
        (ref,) = [event.body.ref for event in await owner.events() if isinstance(event.body, ItemHeld)]
        await owner.say(bang("sessions_send", session_id=desk.sid, content={"$ref": ref}))
        results = bodies(await owner.events(), ToolResult)
        # Whoever could work out the id learns nothing by it.
        made = f"{owner.sid}/1/{results[-1].call}"
        receipt = receipt_id(made)
        assert [one.key for one in await sent(owner)] == [made] * (text == "secret")
        assert receipt.partition("-")[2] not in results[-1].text
        assert await answered(owner, receipt) == UNKNOWN
        assert (await owner.state()).taint == PUBLIC
        # Once it has read as much it may know.
        await owner.say(bang("admit", ref=ref))
        assert (UNKNOWN in str(await answered(owner, receipt))) == (text != "secret")


async def test_where_a_conversation_may_not_be_known_its_receipts_are_not_either(tmp_path: Path) -> None:
    async with running(tmp_path, BARE) as owner:
        desk, lobby = at(owner, "desk"), at(owner, "lobby")
        await desk.say("hello")
        await lobby.say("hello")
        receipt = await put(lobby, desk)
        await lobby.say(READS)
        shown = {await lobby.say(f"/status {name}", wait=False) for name in (receipt, "invented")}
        assert len(shown) == 1
        assert WITHHELD_REPLY in shown.pop()


async def test_what_a_dead_process_handed_over_is_told_and_what_was_held_is_not(tmp_path: Path) -> None:
    """Killed after its target had it and before that was noted: the next process hands it over again, to no effect."""
    async with two(tmp_path) as (owner, desk):
        store = owner.app.store
        receipts = [
            await put(owner, desk, deliver=False),
            await put(owner, desk, label=CONFIDENTIAL, deliver=False),
        ]
        there, above = await store.outbox.take(owner.sid, "dead", (SESSION,))
        for left in (there, above):
            await handoff(store).hand_over(left, left.text)
        assert [one.arrival for one in await sent(owner)] == [None, None]
        assert [await told(owner, one) for one in receipts] == [{"status": "delivered"}, {"status": "accepted"}]
        (held,) = await store.delegation.held(desk.sid)
        await desk.say(f"/held accept {held.id}", wait=False)
        for left in (there, above):
            await store.outbox.settle(left, "dead", DeliveryState.PENDING)
    async with running(tmp_path, BARE) as owner:
        await eventually(lambda: arrived(owner))
        desk = at(owner, "desk")
        assert await hears(desk, 2) == ["hi", "hi"]
        assert [one.arrival for one in await sent(owner)] == [Arrival.WAITING, Arrival.HELD]
        assert (await told(owner, receipts[0]))["status"] == "consumed"
        assert await told(owner, receipts[1]) == {"status": "accepted"}


async def test_a_receipt_ends_with_what_it_is_derived_from(tmp_path: Path) -> None:
    async with two(tmp_path) as (owner, desk):
        receipt = await put(owner, desk)
        await command(owner.app.store, "DEL", session_keys(desk.sid).inputs)
        assert UNKNOWN in await owner.say(f"/status {receipt}", wait=False)
