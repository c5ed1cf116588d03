"""One policy is in force for all processes of a store: the last that was put there; who has another does nothing."""

import asyncio
import io
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest

from bot.agent.call_runs import CallRuns
from bot.app import workers
from bot.app.extensions import Extensions
from bot.app.opening import open_app
from bot.config.load import load_config
from bot.core.clock import SystemClock
from bot.ingress.router import NOT_SERVING
from bot.sessions.deliveries import DeliveryState, NewDelivery
from bot.sessions.log.events import EventType
from bot.sessions.models import Change
from bot.store.redis_store import RedisStore
from bot.store.schema import POLICY
from bot.tools import catalogue
from bot.turn import OpenTurn
from bot.worker.lease import LeaseKeeper
from channels.console import Console
from channels.messages import Address
from policy.labels import PUBLIC, parse
from tests.bot.kit import Scripted, bang, by_hand, eventually, parts
from tests.harness import Person, running
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

PLAIN = "{}\n"
NO_TIME = "policy:\n  rules:\n    - {id: no-time, hook: PRE_TOOL_CALL, tools: [current_time], action: BLOCK}\n"
LOWERED = "policy:\n  principals:\n    owner: {role: owner, clearance: INTERNAL~, accounts: ['console:owner']}\n"


@dataclass
class Process(Person):
    """A process as far as the store can tell; `told` is what it says to whoever looks after it."""

    told: list[str] = field(default_factory=list[str])

    @property
    def digest(self) -> str:
        return self.app.reloader.digest

    @property
    def behind(self) -> bool:
        return self.app.reloader.behind

    async def stopped(self) -> None:
        """Wait until it has noticed that another policy is in force."""

        async def noticed() -> bool:
            return self.behind

        await eventually(noticed)

    async def answered(self, *, times: int = 1) -> None:
        """Wait until the model spoke so often."""

        async def spoken() -> bool:
            log = await self.events()
            return [event.type for event in log].count(EventType.AGENT_MESSAGE) >= times

        await eventually(spoken)

    async def head(self) -> str:
        found = await self.app.store.policy.read_policy()
        assert found is not None
        return found.digest

    async def policy_rows(self) -> list[tuple[str, object]]:
        rows = [row async for row in self.app.chains.records("audit")]
        return [(row.actor, row.body["in_force"]) for row in rows if row.kind == "policy"]


def write(folder: Path, name: str, config: str) -> Path:
    path = folder / name
    path.write_text(config)
    return path


async def drop_head(store: RedisStore) -> None:
    await store._shared.connection.commands(("DEL", POLICY))  # pyright: ignore[reportPrivateUsage] - the key is lost by harm alone


@asynccontextmanager
async def process(
    folder: Path, name: str, config: str, made: Extensions | None = None, *, embedded: bool = False
) -> AsyncGenerator[Process]:
    """Serve one data directory by a file of one's own."""
    path = write(folder, name, config)
    environment = await SERVERS.place(folder / "data", embedded=embedded)
    settings = await asyncio.to_thread(load_config, path, environment, catalogue.ARGUMENTS)
    output, told = io.StringIO(), list[str]()

    async def tell(line: str) -> None:
        told.append(line)

    async with open_app(settings, [Console(output)], {}, made or Extensions()) as app:
        serving = asyncio.create_task(app.serve(tell))
        try:

            async def begun() -> bool:
                # Not what the store says: another process may have put the same policy there before this one began.
                return app.reloader.following

            await eventually(begun)
            yield Process(app, output, told=told)
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


async def test_the_newer_start_wins_and_the_older_process_says_that_it_stopped(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", PLAIN) as old:
        assert "You said: hello" in await old.say("hello")
        async with process(tmp_path, "b.yaml", NO_TIME) as new:
            await old.stopped()
            assert await old.head() == new.digest != old.digest
            first, second = old.told
            assert f"policy {new.digest[:12]} was put in force by process {os.getpid()} on " in first
            assert f"this process has policy {old.digest[:12]} and stopped serving" in first
            assert "`/policy reload`" in second
            assert not new.told
            for text in ("hello", "/status", "/reset", "/simulate current_time {}"):
                assert await old.say(text, wait=False) == f"  {NOT_SERVING}\n"
            assert old.digest != new.digest
            assert f"Policy {old.digest[:12]} is not in force" in await old.say("/policy show", wait=False)
            assert "At the store it was put in force by" in await new.say("/policy show")
            assert "You said: again" in await new.say("again")
            assert "no-time" in await new.say("!current_time {}")
            assert [actor for actor, _ in await new.policy_rows()] == ["start", "start"]


async def test_a_start_with_the_policy_in_force_changes_nothing(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", PLAIN) as old, process(tmp_path, "b.yaml", PLAIN) as new:
        assert await new.policy_rows() == [("start", old.digest)]
        await old.say("one")
        assert "You said: one" in old.shown + new.shown
        assert not old.told
        assert not new.told


async def test_a_reload_is_followed_by_a_process_whose_file_says_the_same(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", PLAIN) as one, process(tmp_path, "b.yaml", PLAIN) as two:
        write(tmp_path, "a.yaml", NO_TIME)
        write(tmp_path, "b.yaml", NO_TIME)
        before = one.digest
        await one.say("/policy reload", wait=False)
        assert one.digest != before

        async def followed() -> bool:
            return two.digest == one.digest

        await eventually(followed)
        assert not two.told
        assert not two.behind
        assert await one.policy_rows() == [("start", before), ("owner", one.digest), ("follow", one.digest)]


@pytest.mark.parametrize("other", ["policy: [\n", "policy:\n  compartments: [hr]\n", None, PLAIN])
async def test_two_different_files_never_take_turns(tmp_path: Path, other: str | None) -> None:
    async with process(tmp_path, "a.yaml", PLAIN) as one, process(tmp_path, "b.yaml", PLAIN) as two:
        write(tmp_path, "a.yaml", NO_TIME)
        if other is None:
            (tmp_path / "b.yaml").unlink()
        else:
            write(tmp_path, "b.yaml", other)
        await one.say("/policy reload", wait=False)
        await two.stopped()
        rows = await one.policy_rows()
        # The file is read once for every head: that it says the same later makes nobody follow by himself.
        write(tmp_path, "b.yaml", NO_TIME)
        await asyncio.sleep(1.5)
        assert two.behind
        assert len(two.told) == 2
        assert await one.policy_rows() == rows
        assert not one.behind
        assert "is in force" in await two.say("/policy reload", wait=False)
        assert not two.behind
        assert not one.behind


async def test_a_process_that_is_behind_takes_over_by_a_reload(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", PLAIN) as old, process(tmp_path, "b.yaml", NO_TIME) as new:
        await old.stopped()
        write(tmp_path, "a.yaml", "policy: [\n")
        assert "this process still takes in nothing" in await old.say("/policy reload", wait=False)
        write(tmp_path, "a.yaml", PLAIN)
        assert f"Policy {old.digest[:12]} is in force." in await old.say("/policy reload", wait=False)
        await new.stopped()
        assert "You said: mine" in await old.say("mine")
        # The other one follows when its file is the same, at the next head.
        write(tmp_path, "b.yaml", PLAIN)
        await new.say("/policy reload", wait=False)
        assert not new.behind


async def test_a_process_that_is_behind_serves_again_when_its_policy_is_put_in_force_elsewhere(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", PLAIN) as old, process(tmp_path, "b.yaml", NO_TIME) as new:
        await old.stopped()
        write(tmp_path, "b.yaml", PLAIN)
        await new.say("/policy reload", wait=False)

        async def again() -> bool:
            return not old.behind

        await eventually(again)
        assert old.told[-1] == f"Policy {old.digest[:12]} is in force here too, this process serves again."
        assert "You said" in await old.say("hello") + new.shown


async def test_an_open_turn_is_left_to_a_process_that_has_the_policy_in_force(tmp_path: Path) -> None:
    never = asyncio.Event()
    model = Scripted("the old answer", wait=never)
    async with process(tmp_path, "a.yaml", PLAIN, parts(model=model)) as old:
        await old.send("hello")

        async def asked() -> bool:
            return bool(model.asked)

        await eventually(asked)
        async with process(tmp_path, "b.yaml", NO_TIME, parts(model=Scripted("the new answer"))) as new:
            await new.settled()
            assert "the new answer" in new.shown
            assert "answer" not in old.shown
            assert old.behind
            state = await new.state()
            (turn,) = (await new.app.store.lifecycle.turns(state.sid)).turns
            assert turn.told.attempt == 2


async def test_a_worker_whose_slots_are_all_taken_leaves_its_turns_too(tmp_path: Path) -> None:
    """It was told of more than it has slots for, and waits for one with the next session in its hand."""
    model = Scripted("the old answer", wait=asyncio.Event())
    async with process(tmp_path, "a.yaml", PLAIN, parts(model=model)) as old:
        here = [old, *(Person(old.app, old.output, Address("console", name), old.account) for name in "ab")]

        async def working() -> bool:
            return old.app._serving is not None  # pyright: ignore[reportPrivateUsage]

        await eventually(working)
        worker = old.app._serving  # pyright: ignore[reportPrivateUsage]
        assert worker is not None
        slots = worker._slots  # pyright: ignore[reportPrivateUsage]
        while slots.free:
            await slots.acquire(1)
        # Until it waits for a slot, and for no mark.
        await asyncio.sleep(1.5)
        for one in here:
            await one.send("hello")
        slots.release()

        async def asked() -> bool:
            return bool(model.asked)

        await eventually(asked)
        async with process(tmp_path, "b.yaml", NO_TIME, parts(model=Scripted("the new answer"))) as new:

            async def answered() -> bool:
                return new.shown.count("the new answer") == len(here)

            await eventually(answered)
            assert "answer" not in old.shown


@asynccontextmanager
async def overtaken(folder: Path) -> AsyncGenerator[tuple[Person, OpenTurn]]:
    """Open a turn by hand in a process that was in force, and put another policy in force behind its back."""
    async with by_hand(folder) as (owner, turn), open_app(owner.app.config, [], {}) as other:
        await owner.app.reloader.start(unheard)
        head = await other.store.policy.put_policy("0" * 64, "another", ())
        assert owner.app.store.policy.policy_head != head
        assert not owner.app.reloader.behind
        yield owner, turn


async def unheard(_line: str) -> None:
    """Hear nothing."""


async def test_what_a_turn_commits_meanwhile_is_said_by_another_process_or_not_at_all(tmp_path: Path) -> None:
    async with overtaken(tmp_path) as (owner, turn):
        answer = NewDelivery("k", str(owner.address), "the old answer", PUBLIC, "answer", "t1")
        claimed = await turn.write(Change(deliver=(answer,)))
        assert len(claimed) == 1
        await owner.app.outbox.deliver(claimed)
        assert owner.app.reloader.behind
        assert not owner.shown
        assert [kept.state for kept in await owner.app.store.outbox.deliveries(owner.sid)] == [DeliveryState.PENDING]
        await owner.app.outbox.collect(owner.sid)
        assert [kept.state for kept in await owner.app.store.outbox.deliveries(owner.sid)] == [DeliveryState.PENDING]
        # Its own policy is in force again: it is said, once.
        await owner.app.reloader.start(unheard)
        await owner.app.outbox.collect(owner.sid)
        assert owner.shown.count("the old answer") == 1


async def test_what_may_have_been_said_is_left_to_a_process_of_the_policy_in_force(tmp_path: Path) -> None:
    """That one shows it with its mark, as this channel has one."""
    async with overtaken(tmp_path) as (owner, turn):
        answer = NewDelivery("k", str(owner.address), "perhaps said", PUBLIC, "answer", "t1")
        (claimed,) = await turn.write(Change(deliver=(answer,)))
        await owner.app.outbox.deliver((replace(claimed, state=DeliveryState.AMBIGUOUS),))
        assert not owner.shown
        assert [kept.state for kept in await owner.app.store.outbox.deliveries(owner.sid)] == [DeliveryState.PENDING]


async def test_a_command_is_answered_by_the_policy_in_force_or_not_at_all(tmp_path: Path) -> None:
    """The store is asked first: nothing is shown, sent or approved by a policy that was replaced a moment ago."""
    async with overtaken(tmp_path) as (owner, _):
        assert await owner.say("/status", wait=False) == f"  {NOT_SERVING}\n"


async def test_a_session_claimed_meanwhile_is_given_back(tmp_path: Path) -> None:
    """A worker that learns of another policy with its claim begins no turn."""
    model = Scripted("never")
    async with (
        running(tmp_path, parts=parts(model=model), serve=False) as owner,
        anyio.create_task_group() as tasks,
    ):
        await owner.send("hello")
        keeper = LeaseKeeper(owner.app._open_own_store, 30, SystemClock())  # pyright: ignore[reportPrivateUsage]
        # As a worker that looks at one session, with nothing that could have told it before.
        runs = CallRuns(tasks, 0)
        worker = workers.worker(owner.app.worker_parts(), keeper, await owner.app.model_loader.thinking(), runs)
        await owner.app.reloader.start(unheard)
        async with open_app(owner.app.config, [], {}) as other:
            await other.store.policy.put_policy("0" * 64, "another", ())
        await worker._claim_and_run(owner.sid)  # pyright: ignore[reportPrivateUsage]
        assert owner.app.reloader.behind
        assert not model.asked
        claim = await owner.app.store.sessions.claim(owner.sid, "somebody")
        assert claim is not None
        assert len(claim.items) == 1
        assert claim.state.turn is None


async def test_a_lost_head_is_put_there_again_by_who_had_it_and_by_nobody_else(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", PLAIN) as old:
        async with process(tmp_path, "b.yaml", NO_TIME) as new:
            await old.stopped()
            await drop_head(new.app.store)

            async def there() -> bool:
                head = await new.app.store.policy.read_policy()
                return head is not None and head.digest == new.digest

            await eventually(there)
            assert old.behind
            assert not new.behind
            assert [actor for actor, _ in await new.policy_rows()] == ["start", "start", "lost"]
        await drop_head(old.app.store)
        await asyncio.sleep(2.5)
        assert old.behind
        assert await old.app.store.policy.read_policy() is None
        assert await old.say("hello", wait=False) == f"  {NOT_SERVING}\n"
        assert "No process has put a policy in force" in await old.say("/policy", wait=False)
        assert "is in force" in await old.say("/policy reload", wait=False)
        assert "You said: hello" in await old.say("hello")


async def test_deny_overrides_for_a_person_whose_clearance_was_lowered_elsewhere(tmp_path: Path) -> None:
    """A session above it freezes: nothing is read, nothing above it is said, and the person is told."""
    async with process(tmp_path, "a.yaml", PLAIN) as old:
        await old.say(bang("read_file", path="confidential/pipeline.md"))
        assert (await old.state()).taint == parse("CONFIDENTIAL~")
        async with process(tmp_path, "b.yaml", PLAIN) as other:
            write(tmp_path, "b.yaml", LOWERED)
            await other.say("/policy reload", wait=False)
            await old.stopped()
            log = len(await other.events())
            said = await other.say(bang("read_file", path="public/welcome.md"))
            assert "Welcome" not in said
            assert "You said" not in said
            after = (await other.events())[log:]
            assert not [event for event in after if event.type is EventType.TOOL_RESULT]
            assert (await other.state()).taint == parse("CONFIDENTIAL~")
            assert "more than may be told here" in said
            assert "start anew with `/reset`" in said


async def test_a_killed_store_server_takes_no_policy_with_it(tmp_path: Path) -> None:
    async with (
        process(tmp_path, "a.yaml", PLAIN, embedded=True) as old,
        process(tmp_path, "b.yaml", NO_TIME, embedded=True) as new,
    ):
        await old.stopped()
        server = new.app.store.server
        assert server is not None
        os.kill(int(server.files.pid.read_text()), signal.SIGKILL)

        async def back() -> bool:
            with suppress(Exception):
                return await new.head() == new.digest
            return False

        await eventually(back)
        assert "no-time" in await new.say("!current_time {}")
        assert old.behind
