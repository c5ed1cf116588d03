"""Metrics: they count turns, verdicts, approvals and deliveries of sessions up to their clearance, and tell no name."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.observability.metrics import MetricsSettings, metrics_port
from bot.core.errors import ConfigError, OperatorError
from bot.core.tracing import TraceSpan
from bot.sessions.deliveries import DeliveryState
from bot.telemetry.metrics import Metrics
from bot.telemetry.telemetry import SentSpan
from policy.labels import PUBLIC, Label, Level
from tests.bot.commands.kit import READ, WRITE
from tests.bot.kit import bang, eventually
from tests.harness import Person, running
from tests.sim.otlp import receiver

pytestmark = pytest.mark.anyio

BLOCKS = "policy: {rules: [{id: rosebud, hook: PRE_TOOL_CALL, tools: [list_files], action: BLOCK}]}\n"


@asynccontextmanager
async def measured(folder: Path, clearance: Label = PUBLIC, config: str = "") -> AsyncGenerator[tuple[Person, Metrics]]:
    """Run an application whose telemetry is counted."""
    async with running(folder, config, serve=False) as owner:
        metrics = Metrics(clearance)
        owner.app.telemetry.also(metrics, clearance)
        serving = asyncio.create_task(owner.app.serve())
        try:
            yield owner, metrics
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


def samples(metrics: Metrics) -> dict[str, float]:
    """Return the counts that are not 0, by their names."""
    lines = [line for line in metrics.text().decode().splitlines() if line[:1] not in {"", "#"}]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines) if float(value)}


def turns(metrics: Metrics) -> float:
    return sum(value for name, value in samples(metrics).items() if name.startswith("lockgate_turns_total"))


async def until(metrics: Metrics, many: float) -> dict[str, float]:
    """Wait for a number of turns that are told, with the delivery of the last; return the counts."""

    async def there() -> bool:
        said = samples(metrics).get('lockgate_deliveries_total{channel="console",state="sent"}', 0)
        return turns(metrics) == many and said >= many

    await eventually(there)
    return samples(metrics)


async def test_turns_waits_verdicts_and_deliveries_are_counted(tmp_path: Path) -> None:
    async with measured(tmp_path) as (owner, metrics):
        await owner.say(bang("read_file", path="public/welcome.md"))
        told = await until(metrics, 1)
        assert told['lockgate_turns_total{channel="console",ended="completed"}'] == 1
        assert told['lockgate_verdicts_total{hook="PRE_TOOL_CALL",verdict="ALLOW"}'] == 1
        assert told['lockgate_verdicts_total{hook="PRE_OUTPUT",verdict="ALLOW"}'] == 1
        assert told['lockgate_admissions_total{admitted="true"}'] == 1
        assert told["lockgate_wait_seconds_count"] == told["lockgate_turn_seconds_count"] == 1
        assert told['lockgate_model_seconds_count{failed="false"}'] == 2
        named = set(re.findall(r'(\w+)="', metrics.text().decode()))
        assert named == {"channel", "ended", "failed", "admitted", "hook", "verdict", "state", "le"}


async def test_a_session_above_the_clearance_counts_nothing(tmp_path: Path) -> None:
    """Law `no_write_down`: no count moves, in the turn that rises and in those after it."""
    async with measured(tmp_path) as (owner, metrics):
        await owner.say("hello")
        before = await until(metrics, 1)
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        await owner.say(bang("list_files", path="public"))
        await owner.app.telemetry.close()
        assert samples(metrics) == before


async def test_a_clearance_counts_up_to_that(tmp_path: Path) -> None:
    async with measured(tmp_path, Label(Level.CONFIDENTIAL)) as (owner, metrics):
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        before = await until(metrics, 1)
        await owner.say("/taint raise RESTRICTED")
        await owner.say("hello")
        await owner.app.telemetry.close()
        assert samples(metrics) == before


@pytest.mark.parametrize("level,name", [(Level.PUBLIC, "configured"), (Level.INTERNAL, "rosebud")])
async def test_configured_rules_have_names_where_the_configuration_may_be_known(
    tmp_path: Path, level: Level, name: str
) -> None:
    async with measured(tmp_path, Label(level), BLOCKS) as (owner, metrics):
        await owner.say(bang("list_files", path="public"))
        told = await until(metrics, 1)
        assert told[f'lockgate_rules_total{{hook="PRE_TOOL_CALL",rule="{name}"}}'] == 1
        assert ("rosebud" in metrics.text().decode()) is (name == "rosebud")


@pytest.mark.parametrize("answer,state", [("approve", "granted"), ("deny", "refused")])
async def test_approvals_are_counted_as_asked_and_as_answered(tmp_path: Path, answer: str, state: str) -> None:
    async with measured(tmp_path, Label(Level.CONFIDENTIAL)) as (owner, metrics):
        await owner.say(READ)
        await owner.say(WRITE)
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        await owner.say(f"/{answer} {asked.id}")
        told = await until(metrics, 2)
        assert {key: value for key, value in told.items() if "approvals" in key} == {
            'lockgate_approvals_total{state="asked"}': 1,
            f'lockgate_approvals_total{{state="{state}"}}': 1,
        }


async def test_traces_and_metrics_have_clearances_of_their_own(tmp_path: Path) -> None:
    async with receiver() as sink:
        config = f"telemetry: {{endpoint: '{sink.endpoint}', clearance: INTERNAL}}\n"
        async with measured(tmp_path, config=config) as (owner, metrics):
            await owner.say("hello")
            before = await until(metrics, 1)
            await owner.say("/taint raise INTERNAL")
            await owner.say("hello")
            await sink.until(lambda: len(sink.named("turn")) == 2)
            await owner.app.telemetry.close()
            assert samples(metrics) == before


async def test_how_another_session_takes_a_text_is_not_counted(tmp_path: Path) -> None:
    """Law `no_read_up`: whether it took it depends on that session, which may be above."""
    async with measured(tmp_path) as (owner, metrics):
        await owner.say("hello")
        before = await until(metrics, 1)
        (said, *_) = await owner.app.store.outbox.deliveries(owner.sid)
        for state in (DeliveryState.SENT, DeliveryState.FAILED):
            owner.app.telemetry.delivered(replace(said, address="session::abc:1"), state, 5, 6)
        await owner.app.telemetry.close()
        assert samples(metrics) == before


async def test_a_verdict_that_is_concealed_is_not_counted() -> None:
    metrics = Metrics(PUBLIC)
    await metrics.export([SentSpan(b"", b"", None, TraceSpan("tool", 1, 1, {"tool": "read_file"}))])
    assert samples(metrics) == {}


def test_the_store_is_counted_by_the_clock_alone() -> None:
    metrics = Metrics(PUBLIC)
    metrics.looked(0.002, answered=True, ready=True)
    metrics.looked(3.0, answered=False, ready=False)
    told = samples(metrics)
    assert (told["lockgate_store_seconds_count"], told["lockgate_store_failures_total"]) == (1, 1)
    assert not metrics.ready
    assert "lockgate_ready" not in told


def test_a_process_without_metrics_does_not_load_the_library() -> None:
    code = "import sys, bot.app.app, bot.app.workers, bot.cli.run; print('prometheus_client' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"False\n"


@pytest.mark.parametrize(
    "said,told",
    [
        ("{port: 0}", "`port` must be"),
        ("{port: 70000}", "`port` must be"),
        ("{clearance: 'PUBLIC~'}", "a clearance has no `~`"),
        ("{clearance: 'INTERNAL{nowhere}'}", "unknown compartment `nowhere`"),
        ("{password: x}", "unknown field `password`"),
    ],
)
async def test_mistakes_are_told_by_line(tmp_path: Path, said: str, told: str) -> None:
    with pytest.raises(ConfigError, match=r"config.yaml:1: ") as caught:
        async with running(tmp_path, f"metrics: {said}\n"):
            pass
    assert told in str(caught.value)


def test_the_environment_gives_a_process_its_own_port() -> None:
    settings = MetricsSettings()
    assert metrics_port(settings, {}).port == settings.port
    assert metrics_port(settings, {"LOCKGATE_METRICS_PORT": "9465"}).url == "http://127.0.0.1:9465/metrics"
    for wrong in ("0", "65536", "-1", "many", "٣"):
        with pytest.raises(OperatorError, match="is not a port"):
            metrics_port(settings, {"LOCKGATE_METRICS_PORT": wrong})


@pytest.mark.parametrize(
    "host,warned",
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("10.0.0.1", True)],  # noqa: S104
)
def test_an_address_that_other_machines_reach_is_warned_of(host: str, *, warned: bool) -> None:
    assert bool(MetricsSettings(host=host).warning) is warned


def test_a_loss_is_counted_where_its_label_may_be_known() -> None:
    for clearance, count in ((PUBLIC, 1.0), (Label(Level.INTERNAL), 2.0), (Label(Level.RESTRICTED), 3.0)):
        metrics = Metrics(clearance)
        for label in (PUBLIC, Label(Level.CONFIDENTIAL), None):
            metrics.lost(label)
        assert samples(metrics)["lockgate_truncated_logs_total"] == count
