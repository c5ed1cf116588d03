"""Recording runs: what is told where, what is not, and what is left of it when the session is deleted."""

import asyncio
import json
import logging
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.core.errors import OperatorError
from bot.core.ids import Ids
from bot.run_records.recorder import UNRECORDED, RunRecorder
from bot.sessions.background.run_states import EndReason, GapReason
from bot.sessions.background.runs import Gap, Progress, ProgressChange
from bot.sessions.background.schedules import TimerKind
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import ItemHeld
from bot.sessions.log.events import NewEvent
from bot.sessions.usage import Usage
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, session_keys
from policy.labels import PUBLIC, Label, parse, top
from tests.servers import SERVERS
from tests.store.world import KEY, claimed, command, event, fresh, goal, item, opening, row, stepping

pytestmark = pytest.mark.anyio

TOP: Final = top(())
HIGH: Final = parse("CONFIDENTIAL")
HIDDEN: Final = "hunter2"
AT: Final = 1_900_000_000_000
USED: Final = Usage(1, 10, 20, cost=2_500_000)
ENDED: Final = Progress(turns=1, ended_at=AT, reason=EndReason.COMPLETED)


@dataclass(frozen=True, slots=True)
class Recording:
    """A store, and a folder where records may be."""

    store: RedisStore
    folder: Path

    def recorder(self, clearance: Label = TOP) -> RunRecorder:
        """Return what records there, up to a label."""
        return RunRecorder(
            self.store,
            self.folder,
            clearance=lambda: clearance,
            mask=lambda text: text.replace(HIDDEN, "▇▇▇"),
            ids=Ids(),
        )

    async def git(self, *words: str) -> str:
        """Return what plain git says of the folder."""
        done = await asyncio.to_thread(
            subprocess.run, ["git", *words], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout

    async def files(self, new: NewItem) -> tuple[dict[str, JsonValue], list[dict[str, JsonValue]]]:
        """Return a run's document and its events as the newest commit has them."""
        assert new.charter is not None
        names = (await self.git("ls-files")).split()
        (name,) = [one for one in names if one.endswith(f"/{new.charter.run}.json")]
        lines = (await self.git("show", f"HEAD:{name}l")).splitlines()
        return json.loads(await self.git("show", f"HEAD:{name}")), list(map(json.loads, lines))

    async def commits(self) -> int:
        """Return how many commits there are."""
        return len((await self.git("log", "--format=%s")).splitlines())

    async def audited(self, new: NewItem) -> list[JsonValue]:
        """Return what was decided about the record of a run."""
        found = await self.store.audit.records(AUDIT, limit=10_000)
        return [one.body["permitted"] for one in found if one.kind == "recorded" and one.body["session"] == new.sid]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Recording]:
    store = await open_store(audit_key=KEY, url=await SERVERS.at(tmp_path))
    yield Recording(store, tmp_path / "workspace")
    await store.close()


async def turned(world: Recording, new: NewItem, progress: Progress, *events: NewEvent, used: Usage = USED) -> None:
    """Let a run have a turn, which wrote some events and leaves it at `progress`; one that goes on has work then."""
    claim = await claimed(world.store, new.sid)
    waiting = claim.items[0]
    written = await world.store.sessions.record(claim, opening(claim, waiting.position, waiting.dedupe))
    await world.store.runs.change(claim, ProgressChange(task="t-3", failed=1))
    write = stepping(written.seq, waiting.position, progress, "" if progress.ended_at else "Go on.")
    await world.store.sessions.commit(claim, replace(write, events=(*write.events, *events), usage=used))


async def ended(world: Recording, new: NewItem, *events: NewEvent, used: Usage = USED) -> None:
    """Begin a run, and let it end with its first turn."""
    await world.store.sessions.accept(new)
    await turned(world, new, ENDED, *events, used=used)


async def test_what_another_machine_recorded_is_read_from_the_log(world: Recording, tmp_path: Path) -> None:
    new, recorder = goal(), world.recorder()
    assert new.charter is not None
    elsewhere = Recording(world.store, tmp_path / "elsewhere")
    assert await elsewhere.recorder().elsewhere(new.sid, TOP) is None
    await ended(world, new)
    # No machine recorded it yet.
    assert await elsewhere.recorder().elsewhere(new.sid, TOP) is None
    assert await recorder.record(new.sid)
    assert await elsewhere.recorder().found(new.charter.run, TOP) is None
    told, here = await elsewhere.recorder().elsewhere(new.sid, TOP), await recorder.found(new.charter.run, TOP)
    assert here is not None
    assert told == replace(here, here=False)
    # Not for a reader who may not read all of the repository, nor where the run is above it.
    assert await elsewhere.recorder().elsewhere(new.sid, PUBLIC) is None
    high = goal(label=HIGH)
    await ended(world, high)
    assert await recorder.record(high.sid)
    assert await elsewhere.recorder(PUBLIC).elsewhere(high.sid, TOP) is None


async def test_a_run_that_ended_is_recorded_once(world: Recording) -> None:
    new, recorder = goal(), world.recorder()
    await ended(world, new)
    assert await recorder.record(new.sid)
    assert await recorder.record(new.sid)
    assert await world.commits() == 1
    told, events = await world.files(new)
    assert new.charter is not None
    assert told["run"] == new.charter.run
    assert told["label"] == "PUBLIC"
    assert told["tasks"] == {"completed": 0, "failed": 1, "skipped": 0, "consecutive_failures": 0}
    assert told["ended_at"] == told["recorded_at"] == "2030-03-17T17:46:40.000+00:00"
    assert told["completion_reason"] == "completed"
    assert told["usage"] == {
        "requests": 1,
        "input_tokens": 10,
        "output_tokens": 20,
        "known_tokens": 30,
        "cost": 2.5,
    }
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
    assert (await world.git("log", "--format=%s %aI")) == (
        f"Run {new.charter.run} ended: completed 2030-03-17T17:46:40+00:00\n"
    )
    assert await world.audited(new) == [True]


async def test_the_day_is_that_of_the_start_in_utc(world: Recording) -> None:
    new = goal()
    await ended(world, new)
    await world.recorder().record(new.sid)
    state = await world.store.sessions.state(new.sid)
    told, _ = await world.files(new)
    (name, _) = (await world.git("ls-files")).split()
    assert state is not None
    assert name.split("/")[:2] == ["sessions", str(told["started_at"])[:10]]


async def test_what_is_not_known_is_not_zero(world: Recording) -> None:
    new = goal()
    await ended(world, new, used=Usage(2, 0, 0, complete=False, priced=False))
    await world.recorder().record(new.sid)
    told, _ = await world.files(new)
    known = told["usage"]
    assert isinstance(known, dict)
    assert (known["input_tokens"], known["output_tokens"], known["cost"]) == (None, None, None)


async def test_each_gap_is_a_commit(world: Recording) -> None:
    new, recorder = goal(), world.recorder()
    gaps = (Gap(AT - 500, AT - 400, GapReason.CRASH), Gap(AT - 300, AT - 200, GapReason.WAITING))
    going_on = ((), gaps[:1], gaps, (*gaps, Gap(AT - 100, 0, GapReason.BREAKER)))
    await world.store.sessions.accept(new)
    for number, found in enumerate(going_on, 1):
        await turned(world, new, Progress(turns=number, gaps=found))
        assert await recorder.record(new.sid)
        assert world.folder.exists() == bool(found)
    reasons = [line.rpartition(" ")[2] for line in (await world.git("log", "--format=%s")).splitlines()]
    assert reasons == ["waiting", "crash"]
    told, events = await world.files(new)
    assert told["ended_at"] is None
    await turned(world, new, replace(ENDED, turns=5, gaps=gaps))
    assert await recorder.record(new.sid)
    after, more = await world.files(new)
    assert after["ended_at"] == after["recorded_at"]
    # What was recorded stays as it was, so that git keeps what is new alone.
    assert more[: len(events)] == events
    assert await world.commits() == 3


async def test_an_end_is_recorded_though_the_clock_went_back_behind_a_gap(world: Recording) -> None:
    new, recorder, later = goal(), world.recorder(), Gap(AT + 100, AT + 200, GapReason.CRASH)
    await world.store.sessions.accept(new)
    await turned(world, new, Progress(turns=1, gaps=(later,)))
    assert await recorder.record(new.sid)
    await turned(world, new, replace(ENDED, turns=2, gaps=(later,)))
    for _ in range(2):
        assert await recorder.record(new.sid)
    told, _ = await world.files(new)
    assert told["ended_at"] is not None
    assert await world.commits() == 2


async def test_a_timer_that_is_due_while_a_turn_is_open_stays_for_its_end(world: Recording) -> None:
    """A clock that went forward made it due before the end that it was set for; then the worker died."""
    new, recorder = goal(), world.recorder()
    await world.store.sessions.accept(new)
    claim = await claimed(world.store, new.sid)
    waiting = claim.items[0]
    written = await world.store.sessions.record(claim, opening(claim, waiting.position, waiting.dedupe))
    timer = await recorder.expect(new.sid, 0)
    await recorder.due(timer)
    await world.store.schedules.settle(timer)
    await world.store.sessions.commit(claim, stepping(written.seq, waiting.position, ENDED))
    assert await world.store.schedules.next_due() > 0
    await recorder.due(timer)
    assert await world.commits() == 1


async def test_a_conversation_leaves_no_record(world: Recording) -> None:
    sid = fresh()
    await world.store.sessions.accept(item(sid))
    assert await world.recorder().record(sid)
    assert await world.recorder().record(fresh())
    assert not world.folder.exists()


async def test_a_run_above_the_repository_leaves_no_trace(world: Recording) -> None:
    """Law `no_write_down`: no commit, no file, no name, though others are recorded beside it."""
    low, high, risen = goal(), goal(label=HIGH), goal()
    recorder = world.recorder(PUBLIC)
    await ended(world, low)
    await ended(world, high)
    await ended(world, risen, event(HIGH))
    for new in (low, high, risen):
        assert await recorder.record(new.sid)
    assert await world.commits() == 1
    assert len((await world.git("ls-files")).split()) == 2
    assert len(list((world.folder / "sessions").rglob("*.json*"))) == 2
    for new in (high, risen):
        assert new.charter is not None
        assert new.charter.run not in await world.git("log", "-p", "--all")
        assert await world.audited(new) == [False]
        assert await recorder.found(new.charter.run, TOP) is None
    assert await world.audited(low) == [True]


async def test_what_a_run_held_is_told_up_to_the_clearance(world: Recording) -> None:
    new = goal()
    held = NewEvent("gate", HIGH, ItemHeld("held-1", "the merger", PUBLIC), turn="t")
    await ended(world, new, held)
    await world.recorder(PUBLIC).record(new.sid)
    _, events = await world.files(new)
    assert all(one["type"] != "item.held" for one in events)
    assert all(one["label"] == "PUBLIC" for one in events)


async def test_words_are_sealed_and_secrets_are_not_even_that(world: Recording) -> None:
    new, recorder = goal(), world.recorder()
    await ended(world, new, event(text=f"read the plum papers, {HIDDEN}"))
    await recorder.record(new.sid)
    assert new.charter is not None
    committed = await world.git("log", "-p", "--all")
    for word in ("plum papers", "nightly", "t-3", HIDDEN):
        assert word not in committed
    found = await recorder.found(new.charter.run, TOP)
    assert found is not None
    assert found.readable
    said = [one["body"] for one in found.events if one["type"] == "tool.result"]
    assert [one["text"] for one in said if isinstance(one, dict)] == ["read the plum papers, ▇▇▇"]
    texts = found.document["texts"]
    assert isinstance(texts, dict)
    assert (texts["title"], texts["task"]) == ("nightly", "t-3")


async def test_what_was_sealed_is_lost_with_its_session(world: Recording) -> None:
    new, recorder = goal(), world.recorder()
    await ended(world, new)
    await recorder.record(new.sid)
    key = await world.store.record_keys.record_key(new.sid)
    assert key is not None
    assert len(key) == 64
    await world.store.lifecycle.delete(new.sid, (row(),))
    assert await world.store.record_keys.record_key(new.sid) is None
    assert await world.store.record_keys.record_key(new.sid, b"k" * 64) is None
    assert await command(world.store, "EXISTS", session_keys(new.sid).record_key) == 0
    assert await recorder.record(new.sid)
    assert await world.commits() == 1
    assert new.charter is not None
    found = await recorder.found(new.charter.run, TOP)
    assert found is not None
    assert not found.readable
    assert found.document["completion_reason"] == "completed"
    assert isinstance(found.document["texts"], str)


async def test_a_record_is_for_readers_of_the_whole_repository(world: Recording) -> None:
    """Law `labels_are_never_parsed_from_content`: what a file says of its label does not count."""
    new, recorder = goal(), world.recorder(HIGH)
    await ended(world, new)
    await recorder.record(new.sid)
    assert new.charter is not None
    assert await recorder.found(new.charter.run, PUBLIC) is None
    assert await recorder.found(new.charter.run, HIGH) is not None
    assert await recorder.found("r_none", TOP) is None


async def test_a_body_that_was_moved_or_changed_is_not_read(world: Recording) -> None:
    new, recorder = goal(), world.recorder()
    await ended(world, new)
    await recorder.record(new.sid)
    (name,) = world.folder.rglob("*.jsonl")
    lines = name.read_text().splitlines()
    first, second = json.loads(lines[0]), json.loads(lines[1])
    lines[0], lines[1] = json.dumps({**first, "body": second["body"]}), json.dumps({**second, "body": "AAAA"})
    name.write_text("\n".join(lines))
    await world.git("-c", "user.name=p", "-c", "user.email=p", "commit", "-qam", "Forge")
    assert new.charter is not None
    found = await recorder.found(new.charter.run, TOP)
    assert found is not None
    assert [one["body"] for one in found.events[:2]] == [None, None]
    assert all(one["body"] is not None for one in found.events[2:])


async def test_a_timer_makes_up_for_a_crash(world: Recording) -> None:
    new, recorder = goal(), world.recorder()
    timer = await recorder.expect(new.sid, 1)
    await ended(world, new)
    (taken,), _ = await world.store.schedules.take_due(10, 60_000)
    assert (taken.kind, taken.about) == (TimerKind.RECORD, new.sid)
    await recorder.due(taken)
    assert await world.commits() == 1
    assert await recorder.record(new.sid, timer)
    assert await world.store.schedules.next_due() == -1


async def test_what_cannot_be_written_is_written_later(world: Recording, caplog: pytest.LogCaptureFixture) -> None:
    new, recorder = goal(label=HIGH), world.recorder()
    world.folder.touch()
    await ended(world, new)
    await recorder.expect(new.sid, 1)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            ((taken,), _) = await world.store.schedules.take_due(10, 0)
            with pytest.raises(OperatorError):
                await recorder.due(taken)
    (told,) = [one for one in caplog.records if one.message == UNRECORDED]
    assert told.__dict__["label"] == HIGH
    assert told.__dict__["step"]
    world.folder.unlink()
    ((taken,), _) = await world.store.schedules.take_due(10, 0)
    await recorder.due(taken)
    assert await world.commits() == 1


async def test_two_recorders_at_once_write_each_run_once(world: Recording) -> None:
    news = [goal() for _ in range(3)]
    for new in news:
        await ended(world, new)
    async with asyncio.TaskGroup() as tasks:
        for recorder in (world.recorder(), world.recorder()):
            for new in news:
                tasks.create_task(recorder.record(new.sid))
    assert await world.commits() == 3
