"""A small storm of the same seed every time, and what a storm is made of; `python -m tests.chaos` runs a whole one."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bot.sessions.log.events import EventType
from tests.chaos.fault_proxy import Cut, fault_proxy
from tests.chaos.installation import CHATS, Installation, installed
from tests.chaos.stepped_clock import SteppedClock
from tests.chaos.storm import opened, stormed
from tests.chaos.storm_plan import Fault, FaultKind, Input, Plan, Size, drawn
from tests.chaos.storm_report import Report
from tests.store.world import command, drop_state, keys, put_state

pytestmark = pytest.mark.anyio
_SMALL = Size(inputs=40, sessions=5, workers=3)


async def test_crash_heals_in_a_small_storm(tmp_path: Path) -> None:
    report = Report(1, _SMALL, await stormed(tmp_path, 1, _SMALL))
    assert report.violations == []
    facts = report.facts()
    assert (facts["accepted"], facts["given_up"]) == (40, 0)
    assert "laws     all hold" in report.table()


async def test_what_does_not_hold_is_found(tmp_path: Path) -> None:
    """Each harm that is done to what is left of a few turns is a violation of the law of its name."""
    async with installed(tmp_path) as made:
        for number in range(2):
            for chat in CHATS:
                await made.say(chat, number)
        await made.healed()
        assert (await made.checked()).violations == []
        shown, said, store = list(made.platform.shown), list(made.said), made.app.store

        made.platform.shown.append(replace(shown[0], at=0.0))
        assert await _violated(made) == {"answered_at_most_once"}
        made.platform.shown[:] = [one for one in shown if one.chat != "c1"]
        assert await _violated(made) == {"crash_heals"}
        made.platform.shown[:] = shown
        made.said.append(Input(0, 2, 2, "never accepted"))
        assert await _violated(made) == {"accepted_once_in_order"}
        made.said[:] = said

        sid = made.sid(0)
        events = await store.sessions.events(sid, limit=1_000)
        result = next(one.seq for one in events if one.type is EventType.TOOL_RESULT)
        await put_state(store, sid, taint="RESTRICTED")
        assert await _violated(made) == {"taint_is_the_fold"}
        await drop_state(store, sid, "taint")
        await command(store, "XDEL", keys(sid).log, f"{result}-0")
        assert await _violated(made) == {"log_is_gap_free", "every_tool_call_has_a_result"}
        await command(store, "RPOP", keys(made.sid(1)).audit)
        assert "audit_chains_hold" in await _violated(made)


async def test_what_programs_were_not_told_is_found(tmp_path: Path) -> None:
    """An event that is lost, told twice, or out of order, in a stream or by a webhook, is a violation of that name."""
    plan = Plan((Input(0.0, 0, 0, "hello"),), (Fault(0.5, FaultKind.KILL_API, seconds=0.1),), frozenset())
    async with opened(tmp_path, plan, Size(workers=1)) as storm:
        try:
            await storm.run()
            await storm.readers.caught_up()
        finally:
            await storm.end_workers()
        readers = storm.readers
        assert readers.violations() == []
        told, got, seqs = readers.readers[0].listener.told, readers.here.got, readers.logs[readers.sids[0]]
        heard, sent = list(told), list(got)
        ours = [number for number, one in enumerate(sent) if one.told["data"]["session"] == readers.sids[0]]
        assert len(seqs) > 4

        def violated() -> set[str]:
            found = {one.partition(":")[0] for one in readers.violations()}
            told[:], got[:] = heard, sent
            return found

        del told[-2]
        assert "streams_tell_once" in violated()
        told.append(heard[-1])
        assert violated() == {"streams_tell_once"}
        told[0], told[1] = heard[1], heard[0]
        assert violated() == {"streams_tell_once"}
        last = sent[ours[-1]].id
        got[:] = [one for one in sent if one.id != last]
        assert violated() == {"webhooks_tell_all_in_order", "webhooks_keep_ids"}
        got[ours[0]], got[ours[1]] = sent[ours[1]], sent[ours[0]]
        assert "webhooks_tell_all_in_order" in violated()
        # At least once: the same again, under its id, is none; under another it is.
        got.append(sent[ours[0]])
        assert violated() == set()
        got.append(replace(sent[ours[0]], headers={**sent[ours[0]].headers, "webhook-id": "another"}))
        assert violated() == {"webhooks_keep_ids"}


async def _violated(made: Installation) -> set[str]:
    """Return the names of the laws that do not hold."""
    return {one.partition(":")[0] for one in (await made.checked()).violations}


def test_a_seed_repeats_a_plan() -> None:
    assert drawn(7, Size()) == drawn(7, Size())
    assert drawn(7, Size()) != drawn(8, Size())


def test_a_whole_storm_has_all_that_is_asked_of_it() -> None:
    plan, size = drawn(1, Size()), Size()
    assert (len(plan.inputs), len({one.chat for one in plan.inputs}), size.workers) == (1_200, 30, 4)
    counts = {kind: sum(one.kind is kind for one in plan.faults) for kind in FaultKind}
    assert counts[FaultKind.KILL] >= 20
    assert counts[FaultKind.STOP] >= 10
    assert min(counts.values()) >= 2
    assert {one.cut for one in plan.faults if one.kind is FaultKind.CUT} == set(Cut)
    texts = [one.text for one in plan.inputs]
    assert len(set(texts)) == len(texts)


async def _cut(tmp_path: Path, cut: Cut) -> tuple[bytes, bytes]:
    """Return what the server heard of two requests and what the client heard of two replies, the first of them cut."""
    heard = list[bytes]()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.append(data)
            if data in {b"EVALSHA first", b"EVALSHA again"}:
                writer.write(b"answered")
        writer.close()

    replies = list[bytes]()
    async with (
        await asyncio.start_unix_server(echo, str(tmp_path / "server")),
        fault_proxy(tmp_path / "proxy", tmp_path / "server") as proxy,
    ):
        proxy.arm(cut)
        for request in (b"EVALSHA first", b"EVALSHA again"):
            reader, writer = await asyncio.open_unix_connection(str(proxy.path))
            writer.write(request)
            replies.append(await reader.read(100))
            writer.close()
        assert proxy.done == {cut: 1}
    return b"|".join(heard), b"|".join(replies)


@pytest.mark.parametrize(
    "cut, heard, told",
    [
        (Cut.REQUEST, b"EVALSHA again", b"|answered"),
        (Cut.HALF_REQUEST, b"EVALSH|EVALSHA again", b"|answered"),
        (Cut.REPLY, b"EVALSHA first|EVALSHA again", b"|answered"),
        (Cut.HALF_REPLY, b"EVALSHA first|EVALSHA again", b"answ|answered"),
    ],
)
async def test_a_proxy_cuts_what_it_is_told_to(tmp_path: Path, cut: Cut, heard: bytes, told: bytes) -> None:
    assert await _cut(tmp_path, cut) == (heard, told)


def test_a_clock_is_stepped_in_processes_that_have_it(tmp_path: Path) -> None:
    clock = SteppedClock(tmp_path)
    if not clock.there:
        pytest.skip("there is no C compiler")
    program = "import time; print(time.time(), time.monotonic())"

    def told() -> tuple[float, float]:
        done = subprocess.run(
            [sys.executable, "-c", program], env=clock.environment, capture_output=True, text=True, check=True
        )
        wall, monotonic = map(float, done.stdout.split())
        return wall, monotonic

    before = told()
    clock.step(1000.5)
    after = told()
    assert 1000 < after[0] - before[0] < 1030
    assert after[1] - before[1] < 30
    clock.step(-2000)
    assert told()[0] < before[0]


async def test_the_clock_of_a_store_in_a_storm_is_stepped(tmp_path: Path) -> None:
    async with opened(tmp_path, Plan((), (), frozenset()), Size(workers=1)) as storm:
        if not storm.clock.there:
            pytest.skip("there is no C compiler")
        before, _ = await command(storm.watch, "TIME")
        storm.clock.step(1000)
        async with asyncio.timeout(10):
            # The server keeps what the clock said for as long as it is busy.
            while int((await command(storm.watch, "TIME"))[0]) - int(before) < 1000:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
