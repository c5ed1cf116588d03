"""Workers take sessions fairly: what one person has going starves nobody, over all processes of a store."""

# pyright: reportPrivateUsage=false

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from bot.agent.call_runs import call_runs
from bot.app import workers
from bot.app.app import App
from bot.app.opening import open_app
from bot.core.clock import SystemClock
from bot.worker.lease import LeaseKeeper
from channels.console import Console
from channels.messages import Address
from tests.bot.kit import Probe, bang, eventually, parts, policy
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

SLOTS: Final = 4
TASKS: Final = 100


@asynccontextmanager
async def working(app: App) -> AsyncGenerator[None]:
    """Run a worker with few slots."""
    await app._start(_nobody)
    await asyncio.to_thread(app.gate.policy.load)
    keeper = LeaseKeeper(app._open_own_store, app.config.store.lease_seconds, SystemClock())
    async with call_runs(1) as runs, asyncio.TaskGroup() as tasks:
        thinking = await app.model_loader.thinking()
        made = workers.worker(app.worker_parts(), keeper, thinking, runs, parallel=SLOTS)
        serving = tasks.create_task(made.serve())
        try:
            yield
        finally:
            serving.cancel()
    await keeper.close()


async def _nobody(_line: str) -> None:
    """Tell nobody."""


async def test_a_message_is_claimed_within_the_next_slots_whatever_another_person_has_waiting(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner"), "ann": principal("console:ann", role="member")}
    settings = {**json.loads(policy(principals=people)), "limits": {"person_messages_per_minute": 10 * TASKS}}
    probe = Probe()
    async with running(tmp_path, json.dumps(settings), parts=parts(probe), serve=False) as owner:
        app, output = owner.app, owner.output
        async with open_app(app.config, [Console(output)], {}, parts(probe)) as another:
            for number in range(TASKS):
                await Person(app, output, Address("console", "owner", thread=f"t{number}")).send(bang("probe"))
            ann = Person(app, output, Address("console", "ann"), "console:ann")
            await ann.send(bang("probe", text="mine"))
            async with working(app), working(another):
                await eventually(lambda: _all_ran(probe))
                await ann.settled()
    ran = [one.text for one in probe.said]
    # Each worker takes as many sessions at once as it has slots, and the message is the second one of the queue.
    assert ran.index("mine") < 2 * SLOTS


async def _all_ran(probe: Probe) -> bool:
    return len(probe.said) == TASKS + 1
