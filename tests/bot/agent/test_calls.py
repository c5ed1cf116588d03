"""One step's calls through the gate: labels cannot be raced, no result is missing, approvals bind."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from bot.agent.call_runs import call_runs
from bot.agent.calls import ToolRunner
from bot.agent.context import Context
from bot.agent.room import Room
from bot.core.errors import StoreGoneError
from bot.core.ids import Ids
from bot.delivery.asker_questions import AskerQuestions
from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import PolicyDecision, ToolCall, ToolResult, YieldReason
from bot.sessions.models import Claim, Status, Write, Written
from bot.sessions.ports.sessions import SessionStore
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from bot.turn import OpenTurn
from policy.labels import PUBLIC, Label, join_all, parse
from policy.request import Effect
from tests.bot.kit import (
    CONFIDENTIAL,
    INTERNAL,
    RESTRICTED,
    TOP,
    Probe,
    Scripted,
    TextArguments,
    bang,
    by_hand,
    call,
    note,
    parts,
    policy,
    proposed,
    results,
    unanswered,
)
from tests.events import bodies
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


def reader(name: str, label: Label, *, together: asyncio.Barrier | None = None) -> Probe:
    """Return a tool that reads something of a label, at the same time as another."""

    async def read(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        if together is not None:
            await together.wait()
        return Result(f"{name} read", label)

    return Probe(name, CallFacts(result=label), does=read)


async def fold(person: Person) -> Label:
    """Return the join of what the log admitted."""
    return join_all(event.label for event in await person.events() if event.admitted)


async def test_taint_is_the_fold_of_two_reads_at_once(tmp_path: Path) -> None:
    together = asyncio.Barrier(2)
    low, high = reader("low", INTERNAL, together=together), reader("high", RESTRICTED, together=together)
    for order in (["low", "high"], ["high", "low"]):
        folder = tmp_path / order[0]
        folder.mkdir()
        model = Scripted([proposed(name) for name in order], "done")
        async with running(folder, parts=parts(low, high, model=model)) as owner:
            await owner.say("go")
            assert (await owner.state()).taint == RESTRICTED
            assert await fold(owner) == RESTRICTED
            # both ran, and each was decided at what the one before it had raised the session to
            assert sorted(results(await owner.events())) == [("high", "ok"), ("low", "ok")]


async def test_the_taint_is_raised_before_the_read_it_is_for(tmp_path: Path) -> None:
    seen = list[Label]()

    async def look(_arguments: TextArguments, context: ToolContext, _services: ToolServices) -> None:
        state = await owner.app.store.sessions.state(context.session.sid)
        assert state is not None
        seen.append(state.taint)

    probe = Probe(declared=CallFacts(result=CONFIDENTIAL), does=look)
    async with running(tmp_path, parts=parts(probe)) as owner:
        await owner.say(bang("probe"))
    assert seen == [CONFIDENTIAL]


async def test_every_effect_has_a_decision(tmp_path: Path) -> None:
    found = list[tuple[str, str]]()

    async def look(_arguments: TextArguments, context: ToolContext, _services: ToolServices) -> None:
        found.extend(
            (str(row.body["hook"]), str(row.body["verdict"]))
            for row in await owner.app.store.audit.records(context.session.sid)
            if row.body.get("tool") == "probe"
        )
        assert [call.tool for call in bodies(await owner.events(), ToolCall)] == ["probe"]

    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP), does=look)
    async with running(tmp_path, parts=parts(probe)) as owner:
        await owner.say(bang("probe"))
    assert found == [("PRE_TOOL_CALL", "ALLOW")]


@pytest.mark.parametrize("order", ["read first", "send first"])
async def test_a_send_beside_a_read_is_decided_at_the_label_it_finds(tmp_path: Path, order: str) -> None:
    started, out = asyncio.Event(), list[Label]()

    async def slow(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> None:
        started.set()
        await asyncio.sleep(0.05)

    async def sent(_arguments: TextArguments, context: ToolContext, _services: ToolServices) -> None:
        out.append(context.session.taint)

    read = Probe("read", CallFacts(result=INTERNAL), does=slow)
    post = Probe("post", CallFacts(clearance=PUBLIC), effect=Effect.SEND, does=sent)
    calls = [proposed("read"), proposed("post")]
    model = Scripted(calls if order == "read first" else calls[::-1], "done")
    async with running(tmp_path, parts=parts(read, post, model=model)) as owner:
        await owner.say("go")
        outcomes = dict(results(await owner.events()))
    if order == "read first":
        assert (outcomes, out) == ({"read": "ok", "post": "denied"}, [])
    else:  # nothing was read yet when it left
        assert (outcomes, out) == ({"read": "ok", "post": "ok"}, [PUBLIC])


async def test_a_send_that_waits_while_a_later_read_runs_is_decided_again_at_the_raised_label(tmp_path: Path) -> None:
    read = reader("read", CONFIDENTIAL)
    text = f"{note('guest', 'hello')}\n{bang('read')}"
    async with running(tmp_path, parts=parts(read)) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        shown = await owner.say(text)
        assert results(await owner.events())[1:] == [("read", "ok"), ("message", "denied")]
        assert "May `message`" not in shown
        assert not unanswered(await owner.events())


async def test_a_question_is_bound_to_the_label_the_whole_step_left(tmp_path: Path) -> None:
    read = reader("read", INTERNAL)
    async with running(tmp_path, parts=parts(read)) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say(f"{bang('write_file', path='internal/x.md', text='y')}\n{bang('read')}")
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert asked.label == parse("INTERNAL~")
        await owner.say(f"/approve {asked.id}")
        assert results(await owner.events())[-1] == ("write_file", "ok")


async def test_a_barrier_waits_for_the_reads_before_it(tmp_path: Path) -> None:
    order, second = list[str](), asyncio.Event()

    def step(name: str) -> Probe:
        async def do(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> None:
            if name == "read1":
                await second.wait()
            if name.startswith("read") and name != "read2":
                # What does not wait for it goes on meanwhile.
                await asyncio.sleep(0.05)
            order.append(name)
            if name == "read2":
                second.set()

        send = name.startswith("send")
        return Probe(name, CallFacts(clearance=TOP), effect=Effect.SEND if send else Effect.READ, does=do)

    names = ["read1", "read2", "send1", "read3", "send2"]
    tools = [step(name) for name in names]
    model = Scripted([proposed(name) for name in names], "done")
    async with running(tmp_path, parts=parts(*tools, model=model)) as owner:
        await owner.say("go")
    assert order == ["read2", "read1", "send1", "read3", "send2"]


async def test_reads_run_at_once(tmp_path: Path) -> None:
    together = asyncio.Barrier(5)
    tools = [reader(f"read{n}", PUBLIC, together=together) for n in range(5)]
    model = Scripted([proposed(tool.name) for tool in tools], "done")
    async with running(tmp_path, parts=parts(*tools, model=model)) as owner:
        await owner.say("go")
        assert len(results(await owner.events())) == 5


async def test_every_tool_call_has_a_result_whatever_becomes_of_it(tmp_path: Path) -> None:
    async def fail(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> Result:
        raise RuntimeError("hunter2")

    model = Scripted(
        [
            proposed("current_time"),
            proposed("probe"),
            proposed("format_disk"),
            proposed("current_time", '{"no": "such argument"}'),
            proposed("current_time", "{broken"),
            proposed("current_time", "[1]"),
            proposed("message", {"channel": "console", "recipient": "nobody", "text": "x"}),
        ],
        "done",
    )
    async with running(tmp_path, parts=parts(Probe(does=fail), model=model)) as owner:
        await owner.say("go")
        log = await owner.events()
        assert [outcome for _, outcome in results(log)].count("ok") == 1
        assert dict(results(log))["probe"] == "failed"
        assert len(results(log)) == 7
        assert not unanswered(log)
        assert "hunter2" not in model.read()
        assert (await owner.state()).taint == PUBLIC


async def test_every_tool_call_has_a_result_after_a_stop(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def hang(_arguments: TextArguments, _context: ToolContext, _services: ToolServices) -> None:
        started.set()
        await asyncio.sleep(60)

    model = Scripted([proposed("probe"), proposed("current_time"), proposed("probe")], "never asked")
    async with running(tmp_path, parts=parts(Probe(does=hang, effect=Effect.SEND), model=model)) as owner:
        await owner.send("go")
        await asyncio.wait_for(started.wait(), 60)
        await owner.say("/stop")
        log = await owner.events()
        assert not unanswered(log)
        assert {outcome for _, outcome in results(log)} == {"interrupted"}
        state = await owner.state()
        assert state.last_turn is not None
        assert state.last_turn.reason is YieldReason.CANCELED
        assert len(model.asked) == 1
        # and the next turn goes on from there
        assert "never asked" in await owner.say("and now?")


async def test_denial_changes_nothing(tmp_path: Path) -> None:
    probe = Probe(declared=CallFacts(result=TOP, clearance=PUBLIC), effect=Effect.WRITE)
    async with running(tmp_path, parts=parts(probe)) as owner:
        await owner.say(bang("read_file", path="internal/handbook.md"))
        before = await owner.state()
        await owner.say(bang("probe"))
        after = await owner.state()
        assert not probe.ran
        assert (before.taint, before.inbox_label) == (after.taint, after.inbox_label)
        assert results(await owner.events())[-1] == ("probe", "denied")


async def test_a_denied_call_is_explained_to_the_model_and_kept_for_why(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        assert "no_write_down" in await owner.say(note("guest", "x"))
        assert "no_write_down" in await owner.say("/why")


async def test_redaction_on_call_and_result_is_real_and_told(tmp_path: Path) -> None:
    card = "4111 1111 1111 1111"
    rules = [
        {"id": "in", "hook": "PRE_TOOL_CALL", "pattern": "payment-card", "action": "REDACT"},
        {"id": "out", "hook": "POST_TOOL_RESPONSE", "pattern": "payment-card", "action": "REDACT"},
    ]
    probe = Probe(result=Result(f"the number is {card}"))
    model = Scripted([proposed("probe", {"text": card})], "done")
    async with running(tmp_path, policy(rules=rules), parts=parts(probe, model=model)) as owner:
        await owner.say("go")
        assert [said.text for said in probe.said] == ["[redacted: payment-card]"]
        assert "the number is [redacted: payment-card]" in model.read()
        hooks = [event.body.hook for event in await owner.events() if isinstance(event.body, PolicyDecision)]
        assert hooks == ["PRE_TOOL_CALL", "POST_TOOL_RESPONSE"]


async def test_one_question_for_all_calls_of_a_step_and_each_is_answered_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        shown = await owner.say(f"{note('guest', 'one')}\n{bang('current_time')}\n{note('guest', 'two')}")
        first, second = await owner.app.store.approvals.of(owner.sid)
        assert shown.count("May `message` run") == 2
        assert (await owner.state()).status is Status.AWAITING_INPUT
        said = [entry for entry in await owner.app.store.outbox.deliveries(owner.sid) if entry.kind == "question"]
        assert len(said) == 1
        await owner.say(f"/approve {first.id}")
        assert (await owner.state()).status is Status.AWAITING_INPUT
        shown = await owner.say(f"/deny {second.id}")
        outcomes = {result.call: result.outcome for result in bodies(await owner.events(), ToolResult)}
        assert outcomes[first.call] == "ok"
        assert outcomes[second.call] == "denied"
        assert not unanswered(await owner.events())
        states = {known.id: known.state for known in await owner.app.store.approvals.of(owner.sid)}
        assert states == {first.id: ApprovalState.USED, second.id: ApprovalState.DENIED}


async def test_an_approval_is_used_once(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say(note("guest", "one"))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert "one" in await owner.say(f"/approve {asked.id}")
        # the same words again are another call, and are asked for again
        await owner.say(note("guest", "one"))
        known = await owner.app.store.approvals.of(owner.sid)
        assert sorted(known.state for known in known) == [ApprovalState.PENDING, ApprovalState.USED]


async def test_a_label_that_changed_while_people_thought_asks_again(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say(
            f"{bang('write_file', path='internal/a.md', text='x')}\n{bang('write_file', path='internal/b', text='y')}"
        )
        first, second = await owner.app.store.approvals.of(owner.sid)
        assert first.binding != second.binding
        await owner.say(f"/approve {first.id}")
        await owner.say(f"/approve {second.id}")
        assert [outcome for tool, outcome in results(await owner.events()) if tool == "write_file"] == ["ok", "ok"]


async def test_a_hundred_calls_in_one_step_are_each_decided_and_answered(tmp_path: Path) -> None:
    probe = Probe(effect=Effect.NONE)
    model = Scripted([proposed("probe", name="same id") for _ in range(100)], "done")
    async with running(tmp_path, parts=parts(probe, model=model)) as owner:
        await owner.say("go")
        log = await owner.events()
        assert len(results(log)) == len(probe.ran) == 100
        assert not unanswered(log)
        decided = [
            row for row in await owner.app.store.audit.records(owner.sid) if row.body.get("hook") == "PRE_TOOL_CALL"
        ]
        assert len({str(row.body["call"]) for row in decided}) == 100


class Gone:
    """A store that answers reads and is gone when something is to be written."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def record(self, claim: Claim, write: Write, *, sender: str = "") -> Written:
        raise StoreGoneError(f"gone before {write.op} of {claim.sid} by {sender}")


async def test_a_store_that_is_gone_is_told_as_such_also_from_calls_at_once(tmp_path: Path) -> None:
    async with by_hand(tmp_path) as (owner, turn):
        store = cast("SessionStore", Gone(owner.app.store.sessions))
        lost = OpenTurn(
            store,
            Ids(),
            turn.claim,
            record=turn.record,
            standing=turn.standing,
            sender=owner.app.outbox,
            folds=turn.folds,
            limits=turn.limits,
        )
        calls = tuple(call("current_time", name=name) for name in "ab")
        room = Room((await owner.app.model_loader.thinking()).chain, owner.app.gate)
        questions = AskerQuestions(owner.app.gate, Ids(), 1)
        async with call_runs(5) as runs:
            outbox, alternatives = owner.app.outbox, owner.app.alternatives
            runner = ToolRunner(owner.app.gate, room, outbox, alternatives, runs=runs, questions=questions)
            with pytest.raises(StoreGoneError):
                await runner.run(lost, Context(), calls)


@pytest.mark.parametrize("up_to", ["CONFIDENTIAL", None])
async def test_a_call_that_is_repeated_after_a_crash_runs_below_its_own_raise(
    tmp_path: Path, up_to: str | None
) -> None:
    """The log has it begun at PUBLIC, and the session raised since: its task keeps the label that it was given with."""
    async with by_hand(tmp_path) as (owner, turn):
        turn.standing = replace(turn.standing, taint=CONFIDENTIAL)
        begun = Context(decided={"c1": PUBLIC})
        thinking = await owner.app.model_loader.thinking()
        async with call_runs(5) as runs:
            runner = ToolRunner(
                owner.app.gate,
                Room(thinking.chain, owner.app.gate),
                owner.app.outbox,
                owner.app.alternatives,
                runs=runs,
                questions=AskerQuestions(owner.app.gate, Ids(), 1),
            )
            await runner.run(turn, begun, (call("sessions_spawn", {"task": "x", "up_to": up_to}),))
        (child,) = [state async for state in owner.app.store.sessions.states() if state.lineage is not None]
        assert child.creation == (CONFIDENTIAL if up_to is None else PUBLIC)
