"""Outside effects and the fence: a call in the middle of which the fence went is cancelled, and not made again unasked.

Law `crash_heals`: what others notice and whose outcome nobody knows is asked about, or reported, and not repeated.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bot.agent.calls import OUTCOME_UNKNOWN
from bot.core.ids import Ids
from bot.delivery.approval_prompts import MAY_BE_DONE, MAY_BE_REPEATED
from bot.gate.calls import MAY_BE_LOST, NOBODY
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.log.event_types import ItemHeld, ToolResult
from bot.sessions.log.events import EventType
from bot.sessions.models import Status
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from bot.worker.finish import NOT_MADE
from policy.fixed import OUTCOME
from policy.request import Effect
from tests.bot.kit import (
    CONFIDENTIAL,
    TOP,
    Probe,
    Scripted,
    TextArguments,
    bang,
    eventually,
    parts,
    policy,
    proposed,
    results,
    unanswered,
)
from tests.bot.mcp.servers import command
from tests.bot.mcp.test_http import program
from tests.clocks import LEASE_SECONDS
from tests.events import body_of
from tests.harness import Person, running
from tests.store.world import end_lease, pid_of, remembered

pytestmark = pytest.mark.anyio

FAST = {"store": {"lease_seconds": LEASE_SECONDS}}
READ = bang("read_file", path="public/welcome.md")


class Hanging:
    """A tool body that hangs until it is let go, says when it began and was cancelled, and keeps its keys."""

    def __init__(self, times: int = 1) -> None:
        self.times = times
        self.keys = list[str]()
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, _arguments: TextArguments, context: ToolContext, services: ToolServices) -> Result:
        self.keys.append(context.key)
        if len(self.keys) <= self.times:
            self.begun.set()
            try:
                await asyncio.sleep(600)
            finally:
                self.cancelled.set()
        return Result("done at last")

    async def until_begun(self) -> None:
        await asyncio.wait_for(self.begun.wait(), 60)
        self.begun.clear()


def post(body: Hanging, name: str = "post", *, repeatable: bool = True, declared: CallFacts | None = None) -> Probe:
    """Return a tool that others notice."""
    noticed = declared or CallFacts(clearance=TOP, consequential=True)
    return Probe(name, effect=Effect.SEND, declared=noticed, does=body, repeatable=repeatable)


@asynccontextmanager
async def crashing(
    folder: Path, probe: Probe, *said: str, config: str = "", model: Scripted | None = None
) -> AsyncGenerator[Person]:
    """Say something, drop the worker in the middle of the probe's call, and open the application anew."""
    body, config = probe.does, config or policy(blocks=FAST)
    assert isinstance(body, Hanging)
    async with running(folder, config, parts=parts(probe, model=model), serve=False) as owner:
        serving = asyncio.create_task(owner.app.serve())
        for text in said[:-1]:
            await owner.say(text)
        await owner.send(said[-1])
        await body.until_begun()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    async with running(folder, config, parts=parts(probe, model=model)) as owner:
        await owner.settled()
        yield owner


async def asked(owner: Person, sid: str = "") -> list[Approval]:
    """Return the questions that wait in a session."""
    known = await owner.app.store.approvals.of(sid or owner.sid)
    return [one for one in known if one.state is ApprovalState.PENDING]


async def texts(owner: Person, sid: str = "") -> list[str]:
    """Return the text of every result in a session's log."""
    log = await owner.app.store.sessions.events(sid or owner.sid, limit=1000)
    return [event.body.text for event in log if isinstance(event.body, ToolResult)]


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_person_is_asked_before_a_call_that_others_notice_is_made_again(
    tmp_path: Path, *, repeatable: bool
) -> None:
    body = Hanging()
    async with crashing(tmp_path, post(body, repeatable=repeatable), bang("post")) as owner:
        (question,) = await asked(owner)
        assert (question.rules, (await owner.state()).status) == ((OUTCOME,), Status.AWAITING_INPUT)
        assert MAY_BE_DONE in owner.shown
        assert len(body.keys) == 1
        assert "may have taken effect" in await owner.say("/approvals", wait=False)
        assert "done at last" in await owner.say(f"/approve {question.id}")
        assert len(body.keys) == 2
        assert len(set(body.keys)) == 1  # for a server that knows the call by its key
        assert results(await owner.events()) == [("post", "ok")]


async def test_whoever_refuses_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    body = Hanging()
    async with crashing(tmp_path, post(body), bang("post")) as owner:
        (question,) = await asked(owner)
        assert OUTCOME_UNKNOWN in await owner.say(f"/deny {question.id}")
        assert len(body.keys) == 1
        assert results(await owner.events()) == [("post", "interrupted")]


async def test_a_stop_while_people_are_asked_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    body = Hanging()
    async with crashing(tmp_path, post(body), bang("post")) as owner:
        await owner.say("/stop")
        assert await texts(owner) == [OUTCOME_UNKNOWN]
        assert len(body.keys) == 1


async def test_a_call_that_was_approved_once_is_asked_about_after_each_crash(tmp_path: Path) -> None:
    body = Hanging(times=2)
    probe = post(body)
    async with running(tmp_path, policy(blocks=FAST), parts=parts(probe), serve=False) as owner:
        serving = asyncio.create_task(owner.app.serve())
        await owner.say(READ)
        await owner.say(bang("post"))
        (first,) = await asked(owner)
        await owner.send(f"/approve {first.id}")
        await body.until_begun()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    async with running(tmp_path, policy(blocks=FAST), parts=parts(probe), serve=False) as owner:
        serving = asyncio.create_task(owner.app.serve())
        await owner.settled()
        (second,) = await asked(owner)
        assert set(second.rules) == {"untrusted_cannot_command", OUTCOME}
        await owner.send(f"/approve {second.id}")
        await body.until_begun()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    async with running(tmp_path, policy(blocks=FAST), parts=parts(probe)) as owner:
        await owner.settled()
        (third,) = await asked(owner)
        assert third.id not in {first.id, second.id}
        assert len(body.keys) == 2
        assert "done at last" in await owner.say(f"/approve {third.id}")


async def test_where_nobody_may_answer_it_is_not_made_again(tmp_path: Path) -> None:
    body = Hanging()
    rule = {"id": "quiet", "hook": "PRE_OUTPUT", "pattern": "secret-word", "action": "BLOCK"}
    config = policy(blocks=FAST, rules=[rule], patterns={"secret-word": "hush"})
    model = Scripted([proposed("post", {"text": "hush"})], "so be it")
    async with crashing(tmp_path, post(body), "go", config=config, model=model) as owner:
        assert await owner.app.store.approvals.of(owner.sid) == ()
        assert await texts(owner) == [OUTCOME_UNKNOWN]
        assert NOBODY not in model.read()
        assert "so be it" in owner.shown
        assert len(body.keys) == 1


async def test_a_background_session_asks_its_person_alone(tmp_path: Path) -> None:
    body = Hanging()
    async with crashing(tmp_path, post(body), bang("sessions_spawn", task=bang("post"))) as owner:
        (slot,) = await owner.app.store.delegation.slots("owner")

        async def waits() -> bool:
            return bool(await asked(owner, slot.sid))

        await eventually(waits)
        (question,) = await asked(owner, slot.sid)
        assert question.alone
        assert len(body.keys) == 1

        async def told() -> bool:
            return MAY_BE_DONE in owner.shown

        await eventually(told)
        await owner.say(f"/approve {question.id}")

        async def over() -> bool:
            return len(body.keys) == 2

        await eventually(over)


async def test_a_background_session_without_anybody_to_ask_does_not_make_it_again(tmp_path: Path) -> None:
    body = Hanging()
    # Its first attempt raised it above every private chat of its person.
    config = policy(blocks=FAST, channels={"console": {"classification": "PUBLIC", "inbound": "PUBLIC"}})
    probe = post(body, declared=CallFacts(result=CONFIDENTIAL, clearance=TOP, consequential=True))
    async with crashing(tmp_path, probe, bang("sessions_spawn", task=bang("post")), config=config) as owner:
        (slot,) = await owner.app.store.delegation.slots("owner")

        async def over() -> bool:
            log = await owner.app.store.sessions.events(slot.sid, limit=1000)
            return results(log) == [("post", "interrupted")]

        await eventually(over)
        (told,) = await texts(owner, slot.sid)
        assert told == OUTCOME_UNKNOWN
        assert await owner.app.store.approvals.of(slot.sid) == ()
        assert len(body.keys) == 1


async def test_what_takes_effect_here_alone_is_repeated_and_takes_effect_once(tmp_path: Path) -> None:
    body = Hanging()
    ours = CallFacts(clearance=TOP, consequential=True, once=True)
    async with crashing(tmp_path, post(body, declared=ours), bang("post")) as owner:
        assert await asked(owner) == []
        assert results(await owner.events()) == [("post", "ok")]
        assert len(body.keys) == 2


async def test_of_several_calls_the_finished_ones_are_neither_made_nor_asked_about_again(tmp_path: Path) -> None:
    body, quick = Hanging(), Probe("quick", effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    model = Scripted([proposed("quick"), proposed("post"), proposed("quick")], "all done")
    config = policy(blocks=FAST)
    both = parts(post(body), quick, model=model)
    async with running(tmp_path, config, parts=both, serve=False) as owner:
        serving = asyncio.create_task(owner.app.serve())
        await owner.send("go")
        await body.until_begun()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    async with running(tmp_path, config, parts=both) as owner:
        await owner.settled()
        (question,) = await asked(owner)
        assert question.tool == "post"
        # The third surely never began: it needs nobody.
        assert len(quick.ran) == 2
        assert "all done" in await owner.say(f"/approve {question.id}")
        assert sorted(results(await owner.events())) == [("post", "ok"), ("quick", "ok"), ("quick", "ok")]
        assert not unanswered(await owner.events())


async def test_a_stop_tells_what_was_begun_from_what_was_not(tmp_path: Path) -> None:
    body = Hanging()
    model = Scripted([proposed("post"), proposed("current_time")], "never asked")
    async with running(tmp_path, parts=parts(post(body), model=model)) as owner:
        await owner.send("go")
        await body.until_begun()
        await owner.say("/stop")
        assert body.cancelled.is_set()
        assert await texts(owner) == [OUTCOME_UNKNOWN, NOT_MADE]
        assert not unanswered(await owner.events())


# --- what is held ----------------------------------------------------------------------------------


async def test_whether_a_held_call_ended_is_held(tmp_path: Path) -> None:
    body = Hanging()
    model = Scripted([proposed("post", {"_hold": True})], "so be it")
    secret = CallFacts(result=CONFIDENTIAL, clearance=TOP, consequential=True)
    async with crashing(tmp_path, post(body, declared=secret), "go", model=model) as owner:
        state, log = await owner.state(), await owner.events()
        (held,) = [event for event in log if event.type is EventType.ITEM_HELD]
        assert (body_of(held, ItemHeld).text, held.label) == (OUTCOME_UNKNOWN, CONFIDENTIAL)
        assert results(log) == [("post", "held")]
        assert OUTCOME_UNKNOWN not in model.read()
        assert (await asked(owner), state.taint.level.name, len(body.keys)) == ([], "PUBLIC", 1)


async def test_a_stop_in_the_middle_of_a_held_call_tells_what_its_end_would(tmp_path: Path) -> None:
    shown = list[str]()
    for folder, times in (("stopped", 1), ("ended", 0)):
        body, model = Hanging(times), Scripted([proposed("post", {"_hold": True})], "so be it")
        secret = CallFacts(result=CONFIDENTIAL, clearance=TOP, consequential=True)
        (tmp_path / folder).mkdir()
        async with running(tmp_path / folder, parts=parts(post(body, declared=secret), model=model)) as owner:
            await owner.send("go")
            if times:
                await body.until_begun()
                await owner.say("/stop")
            await owner.settled()
            (told,) = await texts(owner)
            log = await owner.events()
            (item,) = [event for event in log if event.type is EventType.ITEM_HELD]
            shown.append(told.replace(body_of(item, ItemHeld).ref, "REF"))
            assert results(log) == [("post", "held")]
    assert len(set(shown)) == 1


# --- what the store lost ----------------------------------------------------------------------------


async def lost(owner: Person, *texts: str) -> None:
    """Say something whose turn the store loses: its last event is known elsewhere."""
    back = await remembered(owner.app.store, owner.sid)
    for text in texts:
        await owner.say(text)
    await back()
    await owner.app.store.losses.look()
    await owner.settled()


async def test_a_call_that_may_have_been_lost_is_asked_about_until_a_turn_ended(tmp_path: Path) -> None:
    body = Hanging(times=0)
    async with running(tmp_path, policy(blocks=FAST), parts=parts(post(body))) as owner:
        await owner.say("hello")
        await lost(owner, bang("post"))
        assert len(body.keys) == 1
        await owner.say(bang("post"))
        (question,) = await asked(owner)
        assert question.rules == (OUTCOME,)
        assert MAY_BE_REPEATED in owner.shown
        assert len(body.keys) == 1
        await owner.say(f"/approve {question.id}")
        assert len(body.keys) == 2
        await owner.say(bang("post"))
        assert len(body.keys) == 3


async def test_a_held_call_that_may_have_been_lost_is_refused(tmp_path: Path) -> None:
    body = Hanging(times=0)
    model = Scripted("hello", "posted", [proposed("post", {"_hold": True})], "so be it")
    async with running(tmp_path, policy(blocks=FAST), parts=parts(post(body), model=model)) as owner:
        await owner.say("hello")
        await lost(owner, "go")
        await owner.say("go")
        assert results(await owner.events()) == [("post", "denied")]
        assert MAY_BE_LOST in model.read()
        assert body.keys == []


# --- losing the fence ------------------------------------------------------------------------------


async def test_a_store_that_is_away_for_a_lease_cancels_the_tool_and_it_is_asked_about(tmp_path: Path) -> None:
    body = Hanging()
    async with running(tmp_path, policy(blocks=FAST), parts=parts(post(body)), embedded=True) as owner:
        await owner.send(bang("post"))
        await body.until_begun()
        pid = pid_of(owner.app.store)
        os.kill(pid, signal.SIGSTOP)
        try:
            # The store does not answer, so nobody can tell this worker that it lost the session.
            await asyncio.wait_for(body.cancelled.wait(), 60)
        finally:
            os.kill(pid, signal.SIGCONT)

        async def waits() -> bool:
            return bool(await asked(owner))

        await eventually(waits)
        assert len(body.keys) == 1
        (question,) = await asked(owner)
        assert "done at last" in await owner.say(f"/approve {question.id}")


async def test_a_fence_that_another_took_cancels_the_tool_and_it_is_asked_about(tmp_path: Path) -> None:
    body = Hanging()
    async with running(tmp_path, policy(blocks=FAST), parts=parts(post(body))) as owner:
        await owner.send(bang("post"))
        await body.until_begun()
        # As after a pause of this process in which its lease ran out and another took the session, and died.
        claim = None
        while claim is None:
            await end_lease(owner.app.store, owner.sid)
            claim = await owner.app.store.sessions.claim(owner.sid, Ids().owner())
        await owner.app.store.sessions.release(claim)
        await asyncio.wait_for(body.cancelled.wait(), 60)

        async def waits() -> bool:
            return bool(await asked(owner))

        await eventually(waits)
        assert len(body.keys) == 1


@pytest.mark.parametrize("over", ["pipes", "http"])
async def test_the_server_of_a_tool_is_told_and_its_call_is_asked_about(tmp_path: Path, over: str) -> None:
    written = tmp_path / "written"
    tool = {
        "description": "linger",
        "effect": "send",
        "repeatable": True,
        "arguments": {"log": {"type": "string"}},
    }
    async with program() as port:
        there = {"url": f"http://127.0.0.1:{port}/mcp"} if over == "http" else command()
        blocks = {**FAST, "mcp_servers": {"notes": {**there, "tools": {"linger": tool}}}}
        config = policy(blocks=blocks, mcp_servers={"notes": {"floor": "INTERNAL", "clearance": "INTERNAL"}})
        async with running(tmp_path, config, embedded=True) as owner:
            await owner.send(bang("notes__linger", log=str(written)))
            await eventually(lambda: holds(written, "begun"))
            pid = pid_of(owner.app.store)
            os.kill(pid, signal.SIGSTOP)
            try:
                await eventually(lambda: holds(written, "called off"))
            finally:
                os.kill(pid, signal.SIGCONT)

            async def waits() -> bool:
                return bool(await asked(owner))

            await eventually(waits)
            (question,) = await asked(owner)
            assert set(question.rules) == {"untrusted_cannot_command", OUTCOME}
            assert written.read_text().split("\n")[:2] == ["begun", "called off"]
            assert OUTCOME_UNKNOWN in await owner.say(f"/deny {question.id}")
            assert written.read_text().count("begun") == 1


async def holds(path: Path, line: str) -> bool:
    """Say whether a file has a line by now."""
    return line in _lines(path)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
