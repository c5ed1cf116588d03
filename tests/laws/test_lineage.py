"""Law `no_read_up` for lineage.

Sessions that a reader may know of are played and traced. Then what is above the reader is played beside them: sessions
that read what these wrote, learn from it, correct it, write files of the same names and tell it on. Every trace must
be the same byte for byte afterwards: in words, as JSON, and as a picture, back and forward, on every page.
"""

import asyncio
import json
from pathlib import Path
from typing import Final

import pytest

from bot.core.errors import LockgateError
from bot.lineage import rendering
from bot.lineage.graph import HIDDEN
from bot.lineage.loading import LineageViewer
from bot.lineage.picture import svg
from bot.lineage.tracer import LineageQuery, LineageTrace
from bot.lineage.walk import Direction
from bot.sessions.log.event_types import ItemHeld
from channels.messages import Address
from policy.labels import parse
from tests.bot.kit import bang, eventually, policy
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

LOW: Final = "public/welcome.md"
HIGH: Final = "confidential/pipeline.md"
FOLDERS: Final = {
    "public": {"floor": "PUBLIC", "integrity": "TRUSTED"},
    "confidential": {"floor": "CONFIDENTIAL", "integrity": "TRUSTED", "clearance": "top"},
    "plans": {"floor": "PUBLIC", "clearance": "top", "integrity": "TRUSTED"},
}
READERS: Final = ("PUBLIC~", "INTERNAL~", "INTERNAL{hr}~")
CONFIG: Final = policy(folders=FOLDERS, compartments=["hr"])


def at(owner: Person, chat: str) -> Person:
    """Return the owner at a chat of theirs: a session of its own."""
    return Person(owner.app, owner.output, Address("console", chat), "console:owner")


async def played_low(owner: Person) -> list[str]:
    """Play what the readers may know of; return the ids of all that can be traced."""
    await owner.say(bang("memory", action="learn", text="the ferry leaves at nine"))
    await owner.say(bang("read_file", path=LOW))
    await owner.say(bang("write_file", path="plans/week.md", text="open on Monday"))
    await owner.say(bang("read_file", path="plans/week.md"))
    # What it holds is above the readers, and its session is not.
    await owner.say(bang("read_file", path=HIGH, _hold=True))
    await owner.say(bang("sessions_spawn", task="say what the tide does"))

    async def ended() -> bool:
        return any([one.ended_at async for one in owner.app.store.sessions.states() if one.background])

    await eventually(ended)
    await owner.settled()
    whole = await owner.app.lineage.trace(LineageQuery(owner.sid, limit=200), LineageViewer())
    held = [f"{owner.sid}-{one.seq}" for one in await owner.events() if isinstance(one.body, ItemHeld)]
    # One of each kind, the whole sessions, what is held, and the files by their paths.
    kinds = {one.node.kind: one.node.id for one in whole.nodes}
    return [*kinds.values(), *held, owner.sid, "file:plans/week.md", f"file:{LOW}", f"file:{HIGH}"]


async def played_high(owner: Person, memory: str, times: int) -> None:
    """Play what the readers may not know of, in sessions of their own, some or many of them."""
    for number in range(times):
        high = at(owner, f"high{number}")
        await high.say(bang("read_file", path=HIGH))
        await high.say(bang("read_file", path=LOW))
        await high.say(bang("read_file", path="plans/week.md"))
        await high.say(bang("memory", action="recall", query="ferry"))
        await high.say(bang("memory", action="correct", id=memory, text="the ferry is sold"))
        await high.say(bang("write_file", path="plans/week.md", text="sold on Monday"))
        await high.say(bang("sessions_history", session_id=owner.sid))
        await high.say(bang("sessions_spawn", task="say what the ferry does"))
        await high.settled()


async def told(owner: Person, name: str, reader: str) -> list[str]:
    """Return all that a reader is told of a thing: back and forward, page by page, in words, as JSON and drawn."""
    found = list[str]()
    for direction in Direction:
        for limit in (9, 200):
            cursor = ""
            while True:
                query = LineageQuery(name, direction, cursor=cursor, limit=limit)
                try:
                    lineage = await owner.app.lineage.trace(query, LineageViewer(parse(reader)))
                except LockgateError as error:
                    found.append(f"{error.code} {error} {error.next_step}")
                    break
                found += await asyncio.to_thread(rendered, lineage)
                cursor = lineage.cursor
                if not cursor:
                    break
    return found


def rendered(lineage: LineageTrace) -> list[str]:
    return [
        "\n".join(rendering.lines(lineage, "trace")),
        json.dumps(rendering.document(lineage)),
        svg(lineage),
    ]


@pytest.mark.parametrize("times", [1, 3])
async def test_no_read_up_by_lineage_back_and_forward(tmp_path: Path, times: int) -> None:
    """Two runs: without and with what is hidden, however much of it there is."""
    async with running(tmp_path, CONFIG) as owner:
        names = await played_low(owner)
        asked = [(name, reader) for name in names for reader in READERS]
        before = {(name, reader): await told(owner, name, reader) for name, reader in asked}
        await played_high(owner, next(name for name in names if name.startswith("mem_")), times)
        for name, reader in asked:
            assert await told(owner, name, reader) == before[name, reader], (name, reader)
        everything = "".join(text for texts in before.values() for text in texts)
        assert f"file:{HIGH}#" not in everything
        # All of it is found by whom it flows to: the test can tell a difference.
        top = await told(owner, f"file:{LOW}", "RESTRICTED{hr}~")
        assert top != before[f"file:{LOW}", "PUBLIC~"]
        assert f"{at(owner, 'high0').sid}-" in "".join(top)


async def test_what_is_not_shown_is_one_constant_node_whether_or_not_there_is_anything(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG) as owner:
        await owner.say("hello")
        await owner.say(bang("read_file", path=HIGH, _hold=True))
        for reader in (*READERS, "RESTRICTED{hr}~"):
            lineage = await owner.app.lineage.trace(LineageQuery(owner.sid), LineageViewer(parse(reader)))
            assert [node.id for node in lineage.shown].count(HIDDEN) == 1
            assert not any(HIDDEN in {edge.source, edge.target} for edge in lineage.edges)
        whole = await owner.app.lineage.trace(LineageQuery(owner.sid), LineageViewer())
        assert HIDDEN not in [node.id for node in whole.shown]


async def test_of_an_older_generation_its_readers_are_told_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, CONFIG) as owner:
        await owner.say("good morning")
        (said,) = await owner.app.store.outbox.deliveries(owner.sid)
        await owner.say(bang("read_file", path=HIGH))
        await owner.say("/reset")
        await owner.say("/reset confirm")
        await owner.say("hello")
        # The operator is told of it.
        assert (await owner.app.lineage.trace(LineageQuery(f"{owner.sid}-3"), LineageViewer())).nodes
        for reader in (*READERS, "RESTRICTED{hr}~"):
            found = "".join(await told(owner, owner.sid, reader))
            assert HIGH not in found
            assert f"{owner.sid}-3" not in found
            # What may be read by its label is not told either.
            absent = await told(owner, f"{owner.sid}-999", reader)
            for old in (f"{owner.sid}-3", f"{owner.sid}/{said.key}"):
                assert await told(owner, old, reader) == absent
