"""A primary is killed while its replica lags: the installation finds what is lost, mends what it can, and tells people.

One process runs turns, takes messages in and keeps rights here: it knows all that was lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from bot.config.file.source import STORE_VARIABLE
from bot.operations.processes.failover import RIGHTS
from bot.policy_state import Changing
from bot.sessions.installation.losses import LOG_TRUNCATED
from bot.sessions.log.event_types import LogTruncated, ToolResult
from bot.store.losses.losses import TOLD
from bot.store.schema import session_keys
from policy.document.overrides import AccessChange
from policy.labels import Level
from tests.bot.kit import bang, eventually
from tests.fleets import SentinelFleet, sentinels
from tests.harness import Person, running
from tests.journeys.machine import Machine
from tests.journeys.test_slack import buttons, config, hears, listening
from tests.journeys.test_telegram import PATIENCE, call
from tests.sim.slack import slack
from tests.sim.slack_blocks import shown

pytestmark = pytest.mark.anyio

STRANGER = "chat:stranger"


@pytest.fixture
def fleet() -> Iterator[SentinelFleet]:
    with sentinels() as fleet:
        yield fleet


def read(owner: Person) -> Callable[[], Awaitable[bool]]:
    """Return a look whether the file was read."""

    async def there() -> bool:
        return any(isinstance(one.body, ToolResult) for one in await owner.events())

    return there


async def test_what_a_failover_lost_is_found_mended_and_told(fleet: SentinelFleet, tmp_path: Path) -> None:
    async with running(tmp_path, environment={STORE_VARIABLE: fleet.url}) as owner:
        app = owner.app
        with app.failures.listening():
            await owner.say("before")
            kept = (await owner.state()).seq
            await app.failover.look()  # it knows the servers
            await asyncio.to_thread(fleet.hold_back, session_keys(owner.sid).state)
            await owner.say(bang("read_file", path="confidential/pipeline.md"))
            raised = await owner.state()
            await app.reloader.change(lambda _: Changing(AccessChange(accounts={STRANGER: True}), ()))
            assert raised.taint.level is Level.CONFIDENTIAL
            await asyncio.to_thread(fleet.lose)

            async def told() -> bool:
                return TOLD in owner.shown

            await eventually(told)
            # The message that was lost is worked again, by the process that had taken it in.
            await eventually(read(owner))
            state = await owner.settled()
            assert state is not None
            assert state.taint == raised.taint
            lost = [one.body for one in await owner.events() if isinstance(one.body, LogTruncated)]
            assert lost[-1] == LogTruncated(kept, raised.seq)
            assert owner.shown.count(TOLD) == 1

            async def blocked() -> bool:
                return STRANGER in (await app.store.access.overrides())[1].blocked

            # What people decided is put back beside what sessions lost.
            await eventually(blocked)
            seen = {one.cause for one in app.failures.newest()}
            assert {RIGHTS, f"{LOG_TRUNCATED}: the newest events of a session were lost"} <= seen
            rows = await app.store.audit.records(owner.sid)
            assert LOG_TRUNCATED in {row.kind for row in rows}


async def test_a_question_whose_answer_was_lost_is_asked_again_on_slack(fleet: SentinelFleet, tmp_path: Path) -> None:
    """Its copy says that it was answered and has no buttons, so it counts no more as the question."""
    async with slack() as server:
        ann, ben = server.user("ann"), server.user("ben")
        settings = config(server, ann, ben=(ben, "member", "INTERNAL"))
        place = {"channel": "slack", "workspace": server.team.id, "chat": ben.dm().id, "clearance": "INTERNAL"}
        settings["policy"]["recipients"] = {"bens-chat": place}
        settings["store"] = {"url": fleet.url}
        async with listening(Machine(tmp_path), server, settings):
            await ann.says(ann.dm(), call("read_file", path="public/welcome.md"))
            await hears(server, ann.dm(), "read_file:")
            await ann.says(ann.dm(), call("message", channel="slack", recipient="bens-chat", text="we open at nine"))
            await hears(server, ann.dm(), "May `message` run")
            (copy,) = [each for each in ann.dm().messages if buttons(each)]
            await asyncio.to_thread(fleet.hold_back, "")
            await ann.presses(copy, buttons(copy)[0])
            await hears(server, ben.dm(), "we open at nine")
            await server.until(lambda: not buttons(copy), PATIENCE)
            await asyncio.to_thread(fleet.lose)
            await server.until(lambda: any(map(buttons, ann.dm().messages)), PATIENCE)
            again = next(each for each in ann.dm().messages if buttons(each))
            assert again is not copy
            assert "may have been shown before" in shown(again.body)
            await ann.presses(again, buttons(again)[0])
            await server.until(lambda: not buttons(again), PATIENCE)
