"""Leases under work that leaves the loop no time and under clocks that jump; what an idle session holds: nothing."""

# pyright: reportPrivateUsage=false

import asyncio
import gc
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.core.ids import Ids
from bot.quarantine import QUARANTINED
from bot.sessions.inbox import NewItem
from bot.sessions.limits import SessionLimits
from bot.sessions.messages import SessionMessage
from bot.sessions.models import SCHEMA, Change
from bot.store.opening import open_store
from bot.tools.base import Result, ToolContext, ToolServices
from bot.turn import DeadlinePassedError, OpenTurn
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bot.kit import Probe, TextArguments, bang, by_hand, eventually, parts, policy
from tests.clocks import LEASE_SECONDS
from tests.harness import Person, running
from tests.servers import SERVERS
from tests.store.world import KEY, claimed, command, fresh, item, keys, put_state

pytestmark = pytest.mark.anyio

FAST = policy(blocks={"store": {"lease_seconds": LEASE_SECONDS}})
DAY_MS = 24 * 60 * 60 * 1000


async def test_work_that_leaves_the_loop_no_time_keeps_its_lease(tmp_path: Path) -> None:
    clock, busy, taken = SystemClock(), threading.Event(), list[str]()

    async def spin(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        until, n = clock.monotonic() + LEASE_SECONDS + 1, 0
        busy.set()
        while clock.monotonic() < until:
            n += 1
        busy.clear()
        return Result("spun")

    async with running(tmp_path, FAST, parts=parts(Probe(does=spin, repeatable=False))) as owner:

        async def rival() -> None:
            async with owner.app._open_own_store() as store:
                while busy.is_set():
                    if await store.sessions.claim(owner.sid, "rival") is not None:
                        taken.append(owner.sid)
                    await asyncio.sleep(0.1)

        def compete() -> None:
            busy.wait(30)
            asyncio.run(rival())

        thread = threading.Thread(target=compete)
        thread.start()
        shown = await owner.say(bang("probe"))
        await asyncio.to_thread(thread.join)
        assert taken == []
        assert "spun" in shown


class Jumped(SystemClock):
    """A clock that is wrong by so many milliseconds."""

    def __init__(self, by: int) -> None:
        self._by = by

    def wall_ms(self) -> int:
        return super().wall_ms() + self._by


async def test_leases_and_turns_know_nothing_of_a_processs_clock(tmp_path: Path) -> None:
    place = await SERVERS.place(tmp_path)
    url = place["LOCKGATE_STORE_URL"]
    early, late = [await open_store(audit_key=KEY, url=url, clock=Jumped(by)) for by in (-DAY_MS, DAY_MS)]
    try:
        sid = fresh()
        await early.sessions.accept(item(sid))
        first = await claimed(early, sid)
        assert await late.sessions.claim(sid, "late") is None
        assert await late.sessions.renew(first) is False
        await early.sessions.release(first)
        second = await claimed(late, sid)
        assert abs(second.now - first.now) < 60_000
    finally:
        await early.close()
        await late.close()


async def test_the_stores_clock_ends_a_turn_whatever_this_processs_says(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        # It was claimed 500 seconds ago, of which this process noticed nothing: its machine slept.
        claim = replace(turn.claim, now=turn.claim.now - 500_000)
        slept = OpenTurn(
            owner.app.store.sessions,
            Ids(),
            claim,
            record=turn.record,
            standing=turn.standing,
            sender=owner.app.outbox,
            folds=turn.folds,
            limits=SessionLimits(None, 400, None),
        )
        slept._cursor = turn._cursor
        assert slept.active < 10_000

        async def work() -> None:
            with slept.interruptible():
                async with slept.lock:
                    await slept.write(Change())
                await asyncio.sleep(60)

        with pytest.raises(DeadlinePassedError):
            await work()
        assert slept.active >= 500_000


async def test_a_session_that_cannot_be_read_takes_no_other_its_lease(tmp_path: Path) -> None:
    """A newer program wrote to it, or it was damaged, while its turn ran."""
    let_go = asyncio.Event()

    async def wait(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        await let_go.wait()
        return Result("done")

    probe = Probe(does=wait, repeatable=False)
    async with running(tmp_path, FAST, parts=parts(probe)) as owner:
        other = replace(owner, address=Address("console", "other"))

        async def begun(number: int) -> None:
            async with asyncio.timeout(60):
                while len(probe.ran) < number:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.01)

        for number, person in enumerate((owner, other), 1):
            await person.send(bang("probe"))
            await begun(number)
        await put_state(owner.app.store, owner.sid, version=SCHEMA + 1)
        await asyncio.sleep(LEASE_SECONDS + 1)
        before = await other.state()
        let_go.set()
        await other.settled()
        assert before.turn is not None
        assert before.turn.attempt == 1
        assert len(probe.ran) == 2
        assert "done" in owner.shown


async def test_a_turn_whose_lease_was_renewed_is_let_go_when_it_ends(tmp_path: Path) -> None:
    async def wait(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        await asyncio.sleep(LEASE_SECONDS / 2)  # it is renewed each third
        return Result("done")

    async with running(tmp_path, FAST, parts=parts(Probe(does=wait))) as owner:
        assert "done" in await owner.say(bang("probe"))
        await owner.settled()
        await eventually(lambda: let_go({owner.sid}))


async def test_an_idle_session_holds_no_task_no_connection_and_no_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        # Connections are of a pool: it grows with what runs at once, and not with how many sessions there are.
        await talk(owner, 10)
        before = len(asyncio.all_tasks()), await connections(owner)
        for n in range(10, 30):
            await talk(owner, n, first=n - 1)

        async def rested() -> bool:
            return (len(asyncio.all_tasks()), await connections(owner)) <= before

        await eventually(rested)
        serving = owner.app._serving
        assert serving is not None
        assert (serving._busy, serving._runner._turns, serving._slots._taken) == (set(), {}, [])
        assert serving._runner._keeper._turns == {}

        mine = {owner.app.session_id(Address("console", f"room{n}")) for n in range(30)}
        await eventually(lambda: let_go(mine))


async def let_go(sids: set[str]) -> bool:
    """Say whether no turn of these sessions is held in memory; those of other tests are theirs."""
    gc.collect()
    turns = [one for one in gc.get_objects() if isinstance(one, OpenTurn)]
    return not any(one.claim.sid in sids for one in turns)


async def talk(owner: Person, upto: int, first: int = 0) -> None:
    """Say something in some conversations at once, and wait until all are idle."""
    people = [replace(owner, address=Address("console", f"room{n}")) for n in range(first, upto)]
    for person in people:
        text, home = SessionMessage("hello"), str(person.address)
        await owner.app.store.sessions.accept(NewItem(person.sid, fresh(), "owner", PUBLIC, text, home, "owner"))
    for person in people:
        await person.settled()
    await asyncio.sleep(0.1)


async def connections(owner: Person) -> int:
    """Return how many connections this process has to its store."""
    told = await command(owner.app.store, "CLIENT", "LIST")
    return bytes(told).count(owner.app.store.process.encode())


async def test_an_older_worker_leaves_newer_records_alone_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as owner:
        store, home = owner.app.store, Address("console", "newer")
        sid = owner.app.session_id(home)
        await store.sessions.accept(NewItem(sid, "d1", "owner", PUBLIC, SessionMessage("hello"), str(home), "owner"))
        await replace(owner, address=home).settled()
        await put_state(store, sid, version=SCHEMA + 1, waiting=1)
        kept = await command(store, "HGETALL", keys(sid).state), await command(store, "XLEN", keys(sid).log)
        for n in range(3):
            await store.wake.again((sid,))
            assert f"You said: {n}" in await owner.say(str(n))
            await asyncio.sleep(0.5)

        async def told() -> bool:
            return QUARANTINED in caplog.messages

        await eventually(told)
        after = await command(store, "HGETALL", keys(sid).state), await command(store, "XLEN", keys(sid).log)
        assert after == kept
        assert caplog.messages.count(QUARANTINED) == 1
