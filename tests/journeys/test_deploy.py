"""A deploy in the middle of ten turns: one worker is told to end, another goes on. None is lost, and none repeated."""

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bot.agent.calls import OUTCOME_UNKNOWN
from bot.cli.ready import found
from bot.core.clock import SystemClock
from bot.sessions.inbox import ItemStatus, NewItem
from bot.sessions.log.event_types import AgentMessage, TurnCompleted
from bot.sessions.messages import SessionMessage
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bot.kit import bang, eventually, policy, unanswered
from tests.events import bodies
from tests.harness import SETTLED, Person, running
from tests.journeys.deployed import tools
from tests.journeys.forked import inherited
from tests.journeys.nursery import ROOT
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

CONFIG = policy(blocks={"limits": {"drain_seconds": 8}, "store": {"lease_seconds": 600}})
QUICK, SLOW = 1.0, 600.0


@asynccontextmanager
async def worker(folder: Path, name: str, role: str = "worker") -> AsyncGenerator[Process]:
    """Start a worker of a folder, and end it with the block if nobody did."""
    place = await SERVERS.place(folder / "data")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.journeys.deployed", str(folder), name, role),
        cwd=ROOT,
        env={**inherited(), **place},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def begin(owner: Person, name: str, line: str) -> str:
    """Send a message in a conversation of its own; return the session's id."""
    home = Address("console", name)
    sid = owner.app.session_id(home)
    item = NewItem(sid, "d1", "owner", PUBLIC, SessionMessage(line), str(home), "owner")
    await owner.app.store.sessions.accept(replace(item, agent=await owner.app.agents.pin("owner")))
    return sid


def ran(folder: Path) -> Counter[str]:
    """Return how often each call ran."""
    runs = folder / "runs"
    return Counter(runs.read_text(encoding="utf-8").splitlines()) if runs.exists() else Counter()


async def test_a_deploy_in_the_middle_of_ten_turns_loses_none_and_repeats_none(tmp_path: Path) -> None:
    lines = {f"quick{n}": bang("errand", what=f"quick{n}", seconds=QUICK) for n in range(5)}
    lines |= {f"look{n}": bang("look", what=f"look{n}", seconds=SLOW) for n in range(3)}
    lines |= {f"slow{n}": bang("errand", what=f"slow{n}", seconds=SLOW) for n in range(2)}
    async with running(tmp_path, CONFIG, serve=False, parts=tools(tmp_path)) as owner, worker(tmp_path, "old") as old:
        sids = {name: await begin(owner, name, line) for name, line in lines.items()}

        async def begun() -> bool:
            return len(ran(tmp_path)) == len(lines)

        async def another() -> bool:
            told = await asyncio.to_thread(found, tmp_path / "data", SystemClock())
            return [one.ready for one in told] == [True, True]

        async def over() -> bool:
            states = [await owner.app.store.sessions.state(sid) for sid in sids.values()]
            return all(state is not None and state.status in SETTLED and not state.undelivered for state in states)

        await eventually(begun)
        async with worker(tmp_path, "new") as new:
            await eventually(another)
            old.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(old.wait(), 60) == 0
            await eventually(over)  # the leases would last for longer
            for name in ("slow0", "slow1"):
                # Whether it took effect is not known, so that people are asked before it is made again.
                (asked,) = await owner.app.store.approvals.of(sids[name])
                await owner.send(f"/deny {asked.id}")
            await eventually(over)
            new.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(new.wait(), 60) == 0
        old_said, new_said = ((tmp_path / f"{name}.shown").read_text(encoding="utf-8") for name in ("old", "new"))
        assert {name for name in lines if f"did {name}" in old_said} == {f"quick{n}" for n in range(5)}
        assert {name for name in lines if f"did {name}" in new_said} == {f"look{n}" for n in range(3)}
        assert new_said.count("it may have taken effect already") == new_said.count(OUTCOME_UNKNOWN) == 2
        again = {line: count for line, count in ran(tmp_path).items() if count > 1}
        assert again == {f"look look{n}": 2 for n in range(3)}
        for sid in sids.values():
            log = await owner.app.store.sessions.events(sid)
            assert (len(bodies(log, AgentMessage)), len(bodies(log, TurnCompleted))) == (1, 1)
            assert not unanswered(log)
            outcome = await owner.app.store.sessions.outcome(sid, "d1")
            assert outcome is not None
            assert outcome.status is ItemStatus.CONSUMED
