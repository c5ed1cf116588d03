"""An open turn: it alone writes, what it writes is never torn, and what stops it does so once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from bot.access.decision_context import Call
from bot.core.clock import SystemClock
from bot.core.errors import LeaseLostError, ResetError
from bot.core.ids import Ids
from bot.history import event_log
from bot.sessions.deliveries import NewDelivery
from bot.sessions.log.event_types import ToolOutcome, ToolResult, UserMessage
from bot.sessions.models import Change
from bot.sessions.ports.store import Store
from bot.turn import OpenTurn, StopRequestedError
from bot.worker.lease import LeaseKeeper
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, HOME, INTERNAL, by_hand, policy
from tests.clocks import LEASE_SECONDS
from tests.events import bodies
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


def said(text: str, where: object = HOME) -> NewDelivery:
    return NewDelivery(text, str(where), text, PUBLIC)


async def kept_and_waiting(turn: OpenTurn) -> None:
    await turn.write(Change(events=(event_log.user_message(turn.standing, "owner", "kept", label=PUBLIC),)))
    await anyio.sleep(600)


def interrupted_and_broken(turn: OpenTurn) -> None:
    turn.interrupt(LeaseLostError("gone"))
    raise ZeroDivisionError


async def test_what_is_noted_is_written_first_and_once(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        turn.note(event_log.user_message(turn.standing, "owner", "first", label=INTERNAL))
        await turn.write(Change(events=(event_log.user_message(turn.standing, "owner", "second", label=PUBLIC),)))
        await turn.write(Change(events=(event_log.user_message(turn.standing, "owner", "third", label=CONFIDENTIAL),)))
        texts = [message.text for message in bodies(await owner.events(), UserMessage)]
        assert texts == ["first", "second", "third"]
        assert turn.standing.taint == CONFIDENTIAL
        assert (await owner.state()).taint == CONFIDENTIAL


async def test_what_this_process_serves_is_claimed_by_the_write(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        (mine,) = await turn.write(Change(deliver=(said("here"),)))
        assert (mine.state, mine.key) == ("sending", "here")
        assert await turn.write(Change(deliver=(said("here too"), said("there", "pigeon::7:")))) == ()
        states = {entry.key: entry.state for entry in await owner.app.store.outbox.deliveries(owner.sid)}
        assert states == {"here": "sending", "here too": "pending", "there": "pending"}


async def test_a_stop_interrupts_after_the_write_that_learned_of_it(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        await owner.app.store.sessions.stop(owner.sid, actor="owner")
        with pytest.raises(StopRequestedError), turn.interruptible():
            await kept_and_waiting(turn)
        assert "kept" in str(await owner.events())
        await turn.end(Change())


async def test_what_a_write_took_is_known_to_the_ending_that_a_stop_makes(tmp_path: Path) -> None:
    """Otherwise a message that joined the turn with that write would have no end (law `accepted_once_in_order`)."""
    async with by_hand(tmp_path) as (owner, turn):
        await owner.app.store.sessions.stop(owner.sid, actor="owner")
        joined = replace(turn.record, joined=(7,))
        with pytest.raises(StopRequestedError), turn.interruptible():
            await turn.write(Change(turn=joined))
        assert turn.record == joined
        await turn.end(Change())


async def test_a_call_whose_result_a_write_told_is_not_closed_again_by_the_ending_that_a_stop_makes(
    tmp_path: Path,
) -> None:
    """Otherwise its result would stand in the log twice."""
    async with by_hand(tmp_path) as (owner, turn):
        turn.open_calls = {name: Call(name, "current_time", {}) for name in ("told", "open")}
        await owner.app.store.sessions.stop(owner.sid, actor="owner")
        told = event_log.tool_result(turn.standing, ToolResult("told", "current_time", "noon", ToolOutcome.OK), PUBLIC)
        with pytest.raises(StopRequestedError), turn.interruptible():
            await turn.write(Change(events=(told,)))
        assert list(turn.open_calls) == ["open"]
        await turn.end(Change())


async def test_what_a_write_claimed_is_said_although_a_stop_came_with_it(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        await owner.app.store.sessions.stop(owner.sid, actor="owner")
        with pytest.raises(StopRequestedError), turn.interruptible():
            await owner.app.outbox.deliver(await turn.write(Change(deliver=(said("here"),))))
        assert "here" not in owner.shown
        await turn.end(Change())
        await owner.app.outbox.collect(owner.sid)
        assert owner.shown.count("here") == 1
        (entry,) = await owner.app.store.outbox.deliveries(owner.sid)
        assert (entry.key, entry.state) == ("here", "sent")


async def test_the_last_write_comes_too_late_for_a_stop(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        await owner.app.store.sessions.stop(owner.sid, actor="owner")
        await turn.end(Change())
        with turn.interruptible():
            await anyio.lowlevel.checkpoint()


async def test_stale_fence_writes_nothing(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        await owner.app.store.sessions.reset(owner.sid, op=Ids().op(), actor="owner", audit=())
        before = await owner.events()
        with pytest.raises(ResetError), turn.interruptible():
            await turn.write(
                Change(events=(event_log.user_message(turn.standing, "owner", "late", label=CONFIDENTIAL),))
            )
        assert await owner.events() == before
        assert (await owner.state()).taint == PUBLIC


async def test_the_first_reason_counts_and_also_before_the_block_begins(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (_, turn):
        turn.interrupt(LeaseLostError("first"))
        turn.interrupt(StopRequestedError())
        with pytest.raises(LeaseLostError, match="first"), turn.interruptible():
            await anyio.sleep(600)


async def test_what_a_block_raises_passes_unless_it_is_an_echo(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (_, turn):
        with pytest.raises(ZeroDivisionError), turn.interruptible():
            raise ZeroDivisionError
        with pytest.raises(LeaseLostError), turn.interruptible():
            interrupted_and_broken(turn)


async def test_decisions_and_writes_go_one_at_a_time(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):

        async def raise_to(label: Label, name: str) -> None:
            async with turn.lock:
                before = turn.standing.taint
                await turn.write(Change(events=(event_log.user_message(turn.standing, "owner", name, label=label),)))
                assert turn.standing.taint == before.join(label)

        async with asyncio.TaskGroup() as tasks:
            for n in range(20):
                tasks.create_task(raise_to((PUBLIC, INTERNAL, CONFIDENTIAL)[n % 3], str(n)))
        assert (await owner.state()).taint == CONFIDENTIAL


# --- the keeper of leases --------------------------------------------------------------------------


def keeper(owner: Person, lease: float) -> LeaseKeeper:
    @asynccontextmanager
    async def opened_again() -> AsyncGenerator[Store]:
        async with owner.app._open_own_store() as store:  # pyright: ignore[reportPrivateUsage] - as the app does
            yield store

    return LeaseKeeper(opened_again, lease, SystemClock())


async def test_a_lease_is_kept_alive_while_the_loop_is_busy(tmp_path: Path) -> None:
    async with by_hand(tmp_path, policy(blocks={"store": {"lease_seconds": LEASE_SECONDS}})) as (owner, turn):
        keeps = keeper(owner, LEASE_SECONDS)
        with keeps.hold(turn, anyio.current_time()):
            await asyncio.sleep(0.1)
            end = asyncio.get_running_loop().time() + LEASE_SECONDS + 1
            while asyncio.get_running_loop().time() < end:
                pass  # nothing else runs on this loop meanwhile
            await turn.end(Change())
        await keeps.close()


async def test_a_stop_and_a_lost_lease_reach_the_turn_through_the_keeper(tmp_path: Path) -> None:
    async with by_hand(tmp_path, policy(blocks={"store": {"lease_seconds": LEASE_SECONDS}})) as (owner, turn):
        keeps = keeper(owner, LEASE_SECONDS)
        with keeps.hold(turn, anyio.current_time()):
            await owner.app.store.sessions.stop(owner.sid, actor="owner")
            with pytest.raises(StopRequestedError), turn.interruptible():
                await anyio.sleep(600)
        await keeps.close()
    (tmp_path / "again").mkdir()
    async with by_hand(tmp_path / "again") as (owner, turn):
        keeps = keeper(owner, LEASE_SECONDS)
        with keeps.hold(turn, anyio.current_time()):
            await owner.app.store.sessions.reset(owner.sid, op=Ids().op(), actor="owner", audit=())
            with pytest.raises(ResetError), turn.interruptible():
                await anyio.sleep(600)
        await keeps.close()


async def test_a_keeper_that_held_nothing_closes_too(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await keeper(owner, 30).close()
