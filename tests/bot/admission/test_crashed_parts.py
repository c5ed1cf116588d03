"""A worker that vanishes while it takes the parts of a message in loses none of them, and doubles none."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from bot.sessions.inbox import ItemStatus
from bot.sessions.log.event_types import UserMessage
from channels.messages import Attachment, Inbound, MessagePart
from tests.bot.admission.file_channel import HOUSE, FileChannel, Sender, sending
from tests.bot.kit import Scripted, eventually, parts
from tests.events import bodies
from tests.store.world import end_lease

pytestmark = pytest.mark.anyio


async def arrives(ann: Sender, number: int) -> str:
    """Send a part of an album, also if it was sent before; return its identity."""
    ann.channel.files[f"h{number}"] = f"content {number}".encode()
    file, place = Attachment(f"h{number}", f"{number}.txt"), MessagePart(album="7")
    part = Inbound(HOUSE, "post:ann", "", f"p{number}", files=(file,), part=place)
    await ann.app.router.receive(part)
    return part.identity


@pytest.mark.parametrize("step", ["claimed", "fetching", "admitted"])
async def test_parts_survive_a_crash_at_each_step(tmp_path: Path, step: str) -> None:
    slow = FileChannel(delay=60 if step == "fetching" else 0)
    hangs = Scripted("never", wait=asyncio.Event())

    async def begun() -> bool:
        return bool(slow.asked) if step == "fetching" else bool(hangs.asked)

    async with sending(tmp_path, parts=parts(model=hangs), serve=False, channel=slow) as ann:
        for number in (1, 2):
            await arrives(ann, number)
        if step == "claimed":
            await asyncio.sleep(0.6)
            assert await ann.app.store.sessions.claim(ann.sid, "gone") is not None
        else:
            serving = asyncio.create_task(ann.app.serve())
            await eventually(begun)
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
    model = Scripted("read")
    async with sending(tmp_path, parts=parts(model=model), serve=False) as ann:
        # The platform did not see all of them confirmed, and another one comes meanwhile.
        identities = [await arrives(ann, number) for number in (1, 2, 3)]
        await end_lease(ann.app.store, ann.sid)
        serving = asyncio.create_task(ann.app.serve())
        await ann.settled()
        said = bodies(await ann.events(), UserMessage)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        named = [[file.name for file in one.files] for one in said]
        assert named == ([["1.txt", "2.txt"], ["3.txt"]] if step == "admitted" else [["1.txt", "2.txt", "3.txt"]])
        for identity in identities:
            outcome = await ann.app.store.sessions.outcome(ann.sid, identity)
            assert outcome is not None
            assert outcome.status is ItemStatus.CONSUMED
        state = await ann.app.store.sessions.state(ann.sid)
        assert state is not None
        assert state.waiting_items == 0
