"""Traces: what they tell, of whom they tell nothing, and that a sink that is away holds nobody up."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from bot.core import tracing
from bot.core.errors import ConfigError, OperatorError
from bot.sessions.deliveries import DeliveryState
from bot.telemetry.otlp import OtlpSink
from bot.telemetry.telemetry import Telemetry, TelemetryError, TracedTurn
from policy.labels import PUBLIC
from tests.bot.clock import Clock
from tests.bot.kit import bang, eventually
from tests.harness import running
from tests.sim.otlp import Receiver, receiver

pytestmark = pytest.mark.anyio


def config(sink: Receiver, more: str = "", rest: str = "") -> str:
    return f"telemetry: {{endpoint: '{sink.endpoint}'{more}}}\n{rest}"


async def test_a_turn_tells_counts_verdicts_and_rules(tmp_path: Path) -> None:
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        await sink.until(lambda: bool(sink.named("deliver")) and bool(sink.named("turn")))
        (first, *_) = sink.named("model")
        assert first.facts["complete"] is True
        assert {"input_tokens", "output_tokens"} <= set(first.facts)
        (tool,) = sink.named("tool")
        assert tool.facts["verdict"] == "ALLOW"
        (claim,) = sink.named("claim")
        assert claim.facts["session.id"] == owner.sid
        assert (claim.facts["generation"], claim.facts["attempt"], claim.facts["channel"]) == (1, 1, "console")


async def test_a_name_that_the_model_made_up_is_not_told(tmp_path: Path) -> None:
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        await owner.say('!rosebud {"x": 1}')
        await sink.until(lambda: bool(sink.named("turn")))
        assert [span.facts["tool"] for span in sink.named("tool")] == ["unknown"]
        assert b"rosebud" not in b"".join(sink.bodies)


async def test_a_session_above_the_sink_tells_nothing(tmp_path: Path) -> None:
    """Law `no_write_down`: no span, no id, no count of what the sink is not cleared for."""
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        await owner.say("hello")
        await sink.until(lambda: bool(sink.named("deliver")) and bool(sink.named("turn")))
        sink.bodies.clear()
        await owner.say("/taint raise CONFIDENTIAL")
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say("hello")
        # One that is below tells, after those that are not were looked at.
        await owner.say("/reset confirm")
        await owner.say("hello again")
        await sink.until(lambda: bool(sink.named("deliver")) and bool(sink.named("turn")))
        assert {span.facts["generation"] for span in sink.named("claim")} == {2}
        assert len({span.trace for span in sink.spans}) == 1


async def test_a_sink_with_a_clearance_is_told_up_to_that(tmp_path: Path) -> None:
    async with receiver() as sink, running(tmp_path, config(sink, ", clearance: CONFIDENTIAL")) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        await sink.until(lambda: bool(sink.named("turn")))
        before = len(sink.spans)
        await owner.say("/taint raise RESTRICTED")
        await owner.say("hello")
        await owner.app.telemetry.close()
        assert len(sink.spans) == before


async def test_a_turn_that_rose_as_it_ran_is_not_told_from_its_beginning(tmp_path: Path) -> None:
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        await owner.app.telemetry.close()
        assert sink.bodies == []


async def test_a_receiver_that_fails_costs_no_turn_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        sink.status = 500
        with caplog.at_level(logging.INFO, "bot.telemetry"):
            assert "hello" in await owner.say("hello")
            assert "there" in await owner.say("there")
            await sink.until(lambda: len(sink.bodies) >= 4)
            await owner.say("once more")
            await sink.until(lambda: len(sink.bodies) >= 6)
            sink.status = 200
            await owner.say("well again")

            async def well() -> bool:
                return any("again" in record.message for record in caplog.records)

            await eventually(well)
        told = [record for record in caplog.records if record.name.startswith("bot.telemetry")]
        assert [record.message for record in told] == ["traces are not exported", "traces are exported again"]
        assert getattr(told[0], "cause", "") == "the receiver answered 500"
        assert str(sink.port) not in caplog.text


async def test_a_receiver_that_is_away_or_slow_holds_nobody_up(tmp_path: Path) -> None:
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        sink.delay = 60
        async with asyncio.timeout(60):
            for word in ("one", "two", "three"):
                assert word in await owner.say(word)


async def test_an_answer_without_end_is_not_read(tmp_path: Path) -> None:
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        sink.every = 65_536
        await owner.say("hello")
        await sink.until(lambda: bool(sink.named("turn")))
        sent = -1
        async with asyncio.timeout(60):
            while sent != sink.sent:
                sent = sink.sent
                await asyncio.sleep(0.3)
        assert sent < 64 * 1024 * 1024
        await owner.say("there")
        await sink.until(lambda: len(sink.named("turn")) == 2)


async def test_an_answer_that_dawdles_is_left() -> None:
    """Each part of it comes in time, and all of it never."""
    async with receiver() as sink:
        sink.every, sink.pause = 1, 0.1
        told = OtlpSink(sink.endpoint, {}, 0.5)
        async with asyncio.timeout(60):
            with pytest.raises(TelemetryError, match=r"does not answer within 0\.5 seconds"):
                await told.export(())
        await told.close()


async def test_no_variable_of_the_environment_leads_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiver() as sink, receiver() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        told = OtlpSink(sink.endpoint, {})
        sink.status = 202
        await told.export(())
        await told.close()
        assert (len(sink.bodies), proxy.bodies) == (1, [])


async def test_how_another_session_takes_a_text_is_not_told(tmp_path: Path) -> None:
    """Law `no_read_up`: it may be above the receiver, or reset, archived or deleted by one who is."""
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        await owner.say("hello")
        await sink.until(lambda: bool(sink.named("turn")))
        (said, *_) = await owner.app.store.outbox.deliveries(owner.sid)
        parcel = replace(said, address="session::abc:1")
        for state, attempt in ((DeliveryState.SENT, 1), (DeliveryState.FAILED, 4), (DeliveryState.WITHHELD, 1)):
            owner.app.telemetry.delivered(replace(parcel, attempt=attempt), state, 5, 6)
        await sink.until(lambda: len(sink.named("deliver")) == 4)
        here, *others = (span.facts for span in sink.named("deliver"))
        assert here["state"] == "sent"
        assert others[0] == others[1] == others[2]
        assert not {"state", "attempt"} & set(others[0])


async def test_what_rises_while_a_receiver_fails_is_not_sent_again(tmp_path: Path) -> None:
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        sink.status = 500
        await owner.say("hello")
        await sink.until(lambda: bool(sink.bodies))
        await owner.say("/taint raise CONFIDENTIAL")
        sink.bodies.clear()
        await asyncio.sleep(2.5)
        assert sink.bodies == []


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with receiver() as sink, running(tmp_path, config(sink)) as owner:
        sink.leads = "/elsewhere"
        await owner.say("hello")
        await sink.until(lambda: bool(sink.bodies))
        assert {headers["host"] for headers in sink.headers} == {f"127.0.0.1:{sink.port}"}
        await owner.app.telemetry.close()


async def test_without_a_receiver_nothing_is_traced(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        assert not owner.app.telemetry.on
        assert owner.app.telemetry.stopwatch() is None
    with tracing.span("anything") as told:
        told.tell(number=1)


async def test_two_processes_of_one_installation_make_the_same_ids(tmp_path: Path) -> None:
    """A delivery that another process says is a child of the turn that this one ran."""
    async with running(tmp_path, serve=False) as owner:
        await owner.say("hello", wait=False)
        state, clock = await owner.state(), Clock()

        def begun() -> TracedTurn:
            return TracedTurn(state, "t1", 5, 3, 1, "console", lambda: PUBLIC)

        made = [
            Telemetry(owner.app.store.sessions, clock, key=key, clearance=PUBLIC, sink=_never)
            for key in (b"k" * 32, b"k" * 32, b"K" * 32)
        ]
        roots = list[bytes]()
        for one in made:
            with one.turn(begun()) as trace:
                trace.ended = "completed"
            (part,) = one._more([])  # pyright: ignore[reportPrivateUsage] - what waits to be sent
            roots += [sent.id for sent in part.spans if sent.parent is None]
        assert roots[0] == roots[1] != roots[2]


async def test_a_header_without_a_value_stops_the_start(tmp_path: Path) -> None:
    async with receiver() as sink:
        with pytest.raises(OperatorError, match="needs a value for `x-key`") as caught:
            async with running(tmp_path, config(sink, ", headers: {x-key: NOT_SET}")):
                pass
        assert caught.value.next_step == "set NOT_SET in the environment"


@pytest.mark.parametrize(
    "said,told",
    [
        ("{endpoint: 'ftp://x'}", "a server's address begins with"),
        ("{endpoint: 'https://u:p@x/v1'}", "a password does not belong in the configuration"),
        ("{endpoint: 'https://x', clearance: SECRET}", "unknown level `SECRET`"),
        ("{endpoint: 'https://x', clearance: 'PUBLIC~'}", "a clearance has no `~`"),
        ("{endpoint: 'https://x', clearance: 'INTERNAL{nowhere}'}", "unknown compartment `nowhere`"),
        ("{endpoint: 'https://x', headers: {'a b': KEY}}", "is not the name of a header"),
    ],
)
async def test_what_is_wrong_with_it_is_told_by_line(tmp_path: Path, said: str, told: str) -> None:
    with pytest.raises(ConfigError, match=r"config.yaml:1: ") as caught:
        async with running(tmp_path, f"telemetry: {said}\n"):
            pass
    assert told in str(caught.value)


async def test_a_span_that_is_concealed_tells_that_it_was() -> None:
    clock = Clock()
    recorder = tracing.Recorder(tracing.Stopwatch(clock))
    with tracing.recording(recorder), suppress(ValueError), tracing.span("tool") as told:
        told.tell(tool="read_file")
        told.conceal()
        clock.seconds += 5
        raise ValueError
    with tracing.recording(recorder), suppress(ValueError), tracing.span("model"):
        clock.seconds += 5
        raise ValueError
    hidden, open_one = recorder.spans
    assert (hidden.end - hidden.start, hidden.error, hidden.facts) == (0, "", {"tool": "read_file"})
    assert (open_one.end - open_one.start, open_one.error) == (5_000_000_000, "ValueError")


def _never() -> NoReturn:
    raise AssertionError
