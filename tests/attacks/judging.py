"""Judging: what an attack demands of the stage at its end, and what must hold after every attack whatever it was."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from bot.audit.chain import Intact
from bot.history.event_log import decision_in
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus
from bot.sessions.log.event_types import AgentMessage, AgentThinking, PolicyDecision, ToolResult, UserMessage
from bot.sessions.log.events import Event, Visibility
from bot.sessions.models import SessionState
from bot.tools import catalogue
from channels.messages import Address
from policy.labels import PUBLIC, join_all
from tests.attacks.attack import Then
from tests.attacks.stage import Stage

_GUEST = str(Address("console", "guest"))
_OPEN = frozenset({ItemStatus.WAITING, ItemStatus.TAKEN})


async def judge(stage: Stage, then: Then) -> None:
    """Compare what is with what must be."""
    _texts(stage, then)
    if stage.refused is not None:
        return
    said = "\n".join(str(event.body) for event in await stage.events() if event.admitted)
    for text in then.unheard:
        assert text not in said, f"heard: {text}\n{said}"
    await _log(stage, then)
    await _outside(stage, then)
    if then.fetched is not None:
        _same(stage.web.paths, then.fetched)
    if then.offered is not None:
        others = [tool for tool in stage.app.gate.tools if tool.name not in catalogue.NAMES]
        _same([f"{tool.name}: {tool.description}" for tool in others], then.offered)
    await _runs(stage, then)
    for name, times in then.called.items():
        assert stage.puppets.calls[name] == times, f"{name} ran {stage.puppets.calls[name]} times"
    if then.unchanged:
        assert stage.marked is not None, "nothing was marked"
        _same(await stage.dump(), stage.marked)


def _same(found: object, wanted: object) -> None:
    """Demand that two values are equal, and show both if not: pytest rewrites assertions in test files alone."""
    assert found == wanted, f"\nfound:  {found}\nwanted: {wanted}"


def _texts(stage: Stage, then: Then) -> None:
    told = stage.refused or ""
    assert bool(then.load) == (stage.refused is not None), told or "the configuration was put in force"
    for text in then.load:
        assert text in told, f"not told: {text}\n{told}"
    last = stage.steps[-1] if stage.steps else ""
    for where, wanted in ((stage.shown, then.shown), (last, then.last)):
        for text in wanted:
            assert text in where, f"not shown: {text}\n{where}"
    for where, unwanted in ((stage.shown, then.hidden), (last, then.last_hidden)):
        for text in unwanted:
            assert text not in where, f"shown: {text}\n{where}"
    if then.same:
        _same(stage.steps[-1], stage.steps[-2])


async def _log(stage: Stage, then: Then) -> None:
    state, log = await stage.state(), await stage.generation()
    if then.taint is not None:
        assert state is not None
        _same(str(state.taint), then.taint)
    if then.generation is not None:
        assert state is not None
        _same(state.generation, then.generation)
    if then.decisions is not None:
        _same([_decision(told) for told in map(decision_in, log) if told is not None], then.decisions)
    if then.results is not None:
        results = [(event.body, event.label) for event in log if isinstance(event.body, ToolResult)]
        _same([f"{one.tool} {one.outcome} {label}" for one, label in results], then.results)


async def _runs(stage: Stage, then: Then) -> None:
    runs = await stage.runs()
    if then.runs is not None:
        _same([f"{_ended(run)} {run.taint}" for run in runs], then.runs)
    if then.run_results is not None or then.run_unheard:
        log = await stage.app.store.sessions.events(runs[-1].sid, limit=100_000)
        if then.run_results is not None:
            results = [(event.body, event.label) for event in log if isinstance(event.body, ToolResult)]
            _same([f"{one.tool} {one.outcome} {label}" for one, label in results], then.run_results)
        said = "\n".join(str(event.body) for event in log if event.admitted)
        for text in then.run_unheard:
            assert text not in said, f"heard: {text}\n{said}"
    if then.schedules is not None:
        found = await stage.schedules()
        _same([f"{one.kind} {one.status} {one.label}" for one in found], then.schedules)


def _ended(run: SessionState) -> str:
    assert run.progress is not None
    return "goes on" if run.progress.reason is None else run.progress.reason.value


async def _outside(stage: Stage, then: Then) -> None:
    said = [one for one in await stage.deliveries() if one.address != str(stage.home)]
    if then.guest is not None:
        _same([one.text for one in said if one.address == _GUEST and one.state is DeliveryState.SENT], then.guest)
    if then.deliveries is not None:
        _same([f"{Address.parse(one.address).chat} {one.state}" for one in said], then.deliveries)
    if then.approvals is not None:
        _same([approval.state.value for approval in await stage.approvals()], then.approvals)
    if then.inputs is not None:
        _same([status.value for status in await stage.inputs()], then.inputs)
    for name, text in then.files.items():
        path = stage.path(name)
        found = await asyncio.to_thread(_text, path)
        assert found == text, f"{name}: {found!r}"
    for name, text in then.above.items():
        _same(await asyncio.to_thread(stage.above, name), text)
    for name, label in then.labels.items():
        _same(await asyncio.to_thread(stage.label, name), label)
    rows = [record for chain in _known(stage) async for record in stage.app.chains.records(chain)]
    for kind in then.audited:
        assert kind in {row.kind for row in rows}
    if then.refused is not None:
        _same([row.kind for row in rows].count("refused"), then.refused)


async def sound(stage: Stage) -> None:
    """Check what no attack may break: the fold, the log, the results, the decisions, the inputs, the audit."""
    if stage.refused is not None:
        return
    for chain in _known(stage):
        assert isinstance(await stage.app.chains.verify(chain), Intact), f"the audit chain {chain} is broken"
    for run in await stage.runs():
        log = await stage.app.store.sessions.events(run.sid, limit=100_000)
        assert [event.seq for event in log] == list(range(1, run.seq + 1))
        _same(join_all((PUBLIC, *(event.label for event in log if event.admitted))), run.taint)
        _results_follow_calls(log, open_turn=run.turn is not None)
        assert isinstance(await stage.app.chains.verify(run.sid), Intact), "the audit chain of a run is broken"
    state, log = await stage.state(), await stage.events()
    if state is None:
        return
    assert [event.seq for event in log] == list(range(1, state.seq + 1))
    now = [event for event in log if event.generation == state.generation]
    _same(join_all((PUBLIC, *(event.label for event in now if event.admitted))), state.taint)
    _results_follow_calls(now, open_turn=state.turn is not None)
    assert all(status not in _OPEN for status in await stage.inputs()) or state.turn or state.waiting_items
    await _sent_after_decision(stage)


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


def _results_follow_calls(log: Iterable[Event], *, open_turn: bool) -> None:
    """Every call the model proposed has one result before the model, or a person, speaks again."""
    waiting: set[str] = set()
    for event in log:
        match event.body:
            case AgentThinking(response=response):
                assert not waiting, "the model was asked again while calls had no result"
                parts = response["parts"]
                assert isinstance(parts, list)
                waiting = {
                    str(part["tool_call_id"]) for part in parts if isinstance(part, dict) and "tool_call_id" in part
                }
            case ToolResult(call=call):
                assert call in waiting, "a result that nobody waited for"
                waiting.remove(call)
            case UserMessage():
                assert not waiting, "a person was let in while calls had no result"
            case AgentMessage() if event.visibility is Visibility.USER:
                assert not waiting, "the model answered while calls had no result"
            case _:
                pass
    assert open_turn or not waiting, "a turn ended while calls had no result"


async def _sent_after_decision(stage: Stage) -> None:
    """Whatever left has a decision in the audit that let it, made for that address."""
    rows = [record.body for chain in _known(stage) async for record in stage.app.chains.records(chain)]
    allowed = {
        str(row.get("destination"))
        for row in rows
        if row.get("hook") == "PRE_OUTPUT" and row["verdict"] in {"ALLOW", "REDACT"}
    }
    for one in await stage.deliveries():
        if one.state is DeliveryState.SENT:
            assert one.address in allowed, f"{one.kind} to {one.address} without a decision"


def _decision(told: PolicyDecision) -> str:
    return f"{told.about} {told.verdict.name} {' '.join(rule.rule for rule in told.rules)}".rstrip()


def _known(stage: Stage) -> list[str]:
    return ["audit", stage.sid]
