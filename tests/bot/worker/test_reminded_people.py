"""Reminders of questions reach nobody who lost access since they were asked, and nobody once they are over."""

from pathlib import Path
from typing import Any

import pytest

from bot.sessions.background.schedules import Timer, TimerKind
from bot.sessions.deliveries import OURS, DeliveryState, NewDelivery, reminder_key
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC
from tests.bot.kit import bang, eventually, policy
from tests.bot.rooms import CHANNELS, PEOPLE, Rooms, talking

pytestmark = pytest.mark.anyio

ANN = Address("room", "ann")
MEL = Address("room", "mel")
ASK = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}


@pytest.mark.parametrize("removed", ["ann", "mel"])
async def test_a_removed_person_is_not_reminded(tmp_path: Path, removed: str) -> None:
    channels = {**CHANNELS, "room": {**CHANNELS["room"], "inbound": "PUBLIC"}}
    given: dict[str, Any] = {"channels": channels, "chats": {}, "rules": [ASK]}
    async with talking(tmp_path, Rooms(), **given) as people:
        await people.say("mel", bang("current_time"), MEL)
        store, sid = people.app.store, people.app.session_id(MEL)
        (question,) = await store.approvals.of(sid)
        left = {name: person for name, person in PEOPLE.items() if name != removed}
        (tmp_path / "config.yaml").write_text(policy(principals=left, **given))
        assert not (await people.app.reloader.reload("owner")).problem
        await store.schedules.set_timer(Timer(TimerKind.REMIND, f"{sid}/{question.id}", store.tokens.now_ms()))

        async def over() -> bool:
            return await store.schedules.next_due() == -1

        await eventually(over)
        await people.settled(MEL)
        heard = {"ann": people.rooms.heard(ANN), "mel": people.rooms.heard(MEL)}
        reminded = {name for name, texts in heard.items() if "still waits" in str(texts)}
        assert reminded == {"ann", "mel"} - {removed}


async def test_a_reminder_that_waited_until_its_question_was_over_is_not_said(tmp_path: Path) -> None:
    async with talking(tmp_path, Rooms(), chats={}, rules=[ASK]) as people:
        await people.say("mel", bang("current_time"), MEL)
        store, sid = people.app.store, people.app.session_id(MEL)
        (question,) = await store.approvals.of(sid)
        (said,) = [
            one
            for one in await store.outbox.deliveries(sid)
            if one.kind == OutboundKind.QUESTION and one.address == str(MEL)
        ]
        await people.say("mel", f"/deny {question.id}", MEL)
        key = reminder_key(said.key)
        await store.outbox.put(
            sid,
            NewDelivery(key, said.address, "It still waits.", PUBLIC, OutboundKind.NOTICE, said.turn, approved=OURS),
        )

        async def dropped() -> bool:
            every = {one.key: one.state for one in await store.outbox.deliveries(sid)}
            return every[key] is DeliveryState.CANCELLED

        await eventually(dropped)
        assert "It still waits." not in people.rooms.said
