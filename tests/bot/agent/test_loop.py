"""The loop: whatever a model answers, nothing gets round the gate, and the turn ends."""

import asyncio
from pathlib import Path

import pytest
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import NativeToolCallPart, NativeToolReturnPart, TextPart, ThinkingPart

from bot.agent.loop import TOO_MANY_REFUSALS, TOO_MANY_STEPS
from bot.sessions.log.event_types import ToolResult, YieldReason
from bot.sessions.log.events import EventType
from bot.sessions.models import Status
from bot.tools.base import CallFacts
from bot.worker.finish import NO_ANSWER
from policy.labels import PUBLIC, parse
from policy.request import Effect
from tests.bot.kit import (
    CONFIDENTIAL,
    TOP,
    Probe,
    Reply,
    Scripted,
    bang,
    eventually,
    note,
    parts,
    policy,
    proposed,
    results,
    unanswered,
)
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


async def reason(person: Person) -> YieldReason:
    state = await person.state()
    assert state.last_turn is not None
    return state.last_turn.reason


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(NativeToolCallPart("web_search", {"query": "x"}, tool_call_id="n"), id="call"),
        pytest.param(NativeToolReturnPart("web_search", "the secret", tool_call_id="n"), id="result"),
    ],
)
async def test_a_tool_run_at_the_provider_ends_the_turn(
    tmp_path: Path, part: NativeToolCallPart | NativeToolReturnPart
) -> None:
    probe = Probe()
    model = Scripted([TextPart("I looked it up"), part, proposed("probe")])
    async with running(tmp_path, parts=parts(probe, model=model)) as owner:
        shown = await owner.say("search")
        assert "the model used a tool of its provider" in shown
        assert "looked it up" not in shown
        assert "the secret" not in str(await owner.events())
        assert not probe.ran
        assert await reason(owner) is YieldReason.ERROR
        usage = (await owner.state()).usage
        assert (usage.requests, usage.complete) == (1, False)


async def test_an_endless_tool_loop_ends_at_the_limit_of_steps(tmp_path: Path) -> None:
    probe = Probe()
    model = Scripted([proposed("probe"), proposed("format_disk")])
    config = policy(blocks={"limits": {"model_steps": 7}})
    async with running(tmp_path, config, parts=parts(probe, model=model)) as owner:
        assert TOO_MANY_STEPS in await owner.say("go")
        assert len(model.asked) == len(probe.ran) == 7
        assert await reason(owner) is YieldReason.BUDGET_EXCEEDED
        assert not unanswered(await owner.events())


async def test_an_approved_call_runs_even_if_it_was_the_last_step(tmp_path: Path) -> None:
    config = policy(blocks={"limits": {"model_steps": 2}})
    model = Scripted(
        [proposed("read_file", {"path": "public/welcome.md"})],
        [proposed("message", {"channel": "console", "recipient": "guest", "text": "hello"})],
    )
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        await owner.say("go")
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert TOO_MANY_STEPS in await owner.say(f"/approve {asked.id}")
        assert results(await owner.events())[-1] == ("message", "ok")
        assert not unanswered(await owner.events())
        assert len(model.asked) == 2


async def test_a_resumed_turn_has_no_more_than_its_share_of_steps(tmp_path: Path) -> None:
    config = policy(blocks={"limits": {"model_steps": 3}})
    send = proposed("message", {"channel": "console", "recipient": "guest", "text": "hello"})
    model = Scripted([proposed("read_file", {"path": "public/welcome.md"})], [send])
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        await owner.say("go")
        shown = ""
        for _ in range(2):
            waiting = [known for known in await owner.app.store.approvals.of(owner.sid) if known.state == "pending"]
            shown = await owner.say(f"/approve {waiting[0].id}")
        assert TOO_MANY_STEPS in shown
        assert len(model.asked) == 3
        # a turn that asks twice is one turn: it was suspended and went on each time
        kinds = [event.type for event in await owner.events()]
        assert kinds.count(EventType.APPROVAL_REQUESTED) == kinds.count(EventType.APPROVAL_RESOLVED) == 2
        assert kinds.count(EventType.TURN_STARTED) == kinds.count(EventType.TURN_COMPLETED) == 1


@pytest.mark.parametrize(
    "failure, told",
    [
        pytest.param(ModelHTTPError(503, "m", "secret body"), "answered with status 503", id="status"),
        pytest.param(UnexpectedModelBehavior("secret body"), "the model did not answer", id="nonsense"),
        pytest.param(ConnectionResetError("secret body"), "the model did not answer", id="connection"),
        pytest.param(ZeroDivisionError("secret body"), "Something went wrong here", id="bug"),
    ],
)
async def test_an_error_of_the_model_ends_the_turn_in_constant_words(
    tmp_path: Path, failure: Exception, told: str
) -> None:
    config = '{"model": {"retries": 0}}'
    async with running(tmp_path, config, parts=parts(model=Scripted(failure, "better now"))) as owner:
        shown = await owner.say("go")
        assert told in shown
        assert "secret body" not in shown
        assert "secret body" not in await owner.say("/status")
        state = await owner.state()
        assert (state.status, state.usage.requests, state.usage.complete) == (Status.IDLE, 1, False)
        assert "better now" in await owner.say("again")


async def test_usage_is_incomplete_when_the_provider_says_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, parts=parts(model=Scripted("hello", silent=True))) as owner:
        await owner.say("hi")
        usage = (await owner.state()).usage
        assert (usage.requests, usage.input_tokens, usage.complete) == (1, 0, False)


async def test_usage_is_summed_over_the_steps_of_a_turn_also_across_a_question(tmp_path: Path) -> None:
    model = Scripted(
        [proposed("read_file", {"path": "public/welcome.md"})],
        [proposed("message", {"channel": "console", "recipient": "guest", "text": "hello"})],
        "done",
    )
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("go")
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        await owner.say(f"/approve {asked.id}")
        usage = (await owner.state()).usage
        assert (usage.requests, usage.input_tokens, usage.output_tokens, usage.complete) == (3, 30, 15, True)


@pytest.mark.parametrize("reply", ["", " \n", [ThinkingPart("hmm")], []], ids=["empty", "blank", "thinking", "nothing"])
async def test_a_model_that_says_nothing_is_said_to_say_nothing(tmp_path: Path, reply: Reply) -> None:
    async with running(tmp_path, parts=parts(model=Scripted(reply))) as owner:
        assert NO_ANSWER in await owner.say("go")


async def test_what_a_model_thinks_aloud_beside_its_calls_is_not_said(tmp_path: Path) -> None:
    model = Scripted([TextPart("I will tell everybody"), proposed("current_time")], "done")
    async with running(tmp_path, parts=parts(model=model)) as owner:
        shown = await owner.say("go")
        assert "done" in shown
        assert "everybody" not in shown


@pytest.mark.parametrize(
    "arguments",
    ["{broken", "[1, 2]", "null", '"text"', "7", '{"text": NaN}', "[" * 100_000, '{"text": 1e999}'],
    ids=["broken", "list", "null", "text", "number", "nan", "deep", "infinite"],
)
async def test_malformed_arguments_never_reach_a_tool(tmp_path: Path, arguments: str) -> None:
    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP))
    model = Scripted([proposed("probe", arguments)], "done")
    async with running(tmp_path, parts=parts(probe, model=model)) as owner:
        shown = await owner.say("go")
        log = await owner.events()
        assert results(log) == [("probe", "denied")]
        assert "done" in shown
        assert not unanswered(log)
        assert not probe.ran
        # and the conversation can go on, from a log that can still be read
        assert "done" in await owner.say("again")


async def test_half_characters_pass_through_unharmed(tmp_path: Path) -> None:
    probe = Probe()
    model = Scripted([proposed("probe", '{"text": "\\ud800"}'), TextPart("\udfff")], "done \ud800")
    async with running(tmp_path, parts=parts(probe, model=model)) as owner:
        assert "done \\ud800" in await owner.say("go \ud800")
        assert [said.text for said in probe.said] == ["\ud800"]
        assert "done" in await owner.say("again")


async def test_arguments_nested_too_deep_are_refused_not_fatal(tmp_path: Path) -> None:
    deep = '{"more": ' + '{"a": ' * 400 + "1" + "}" * 401
    probe = Probe()
    async with running(tmp_path, parts=parts(probe, model=Scripted([proposed("probe", deep)], "done"))) as owner:
        assert "done" in await owner.say("go")
        assert not unanswered(await owner.events())


@pytest.mark.parametrize("name", ["", "x" * 10_000, "pro\x00be", "\ud800", "probe ", "PROBE", "../probe"])
async def test_a_strange_name_names_no_tool(tmp_path: Path, name: str) -> None:
    probe = Probe()
    async with running(tmp_path, parts=parts(probe, model=Scripted([proposed(name)], "done"))) as owner:
        assert "done" in await owner.say("go")
        assert not probe.ran
        assert [outcome for _, outcome in results(await owner.events())] == ["denied"]


async def test_repeated_call_ids_are_different_calls(tmp_path: Path) -> None:
    model = Scripted(
        [proposed("current_time", name="a"), proposed("format_disk", name="a"), proposed("current_time", name="a")],
        [proposed("current_time", name="a")],
        "done",
    )
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("go")
        await owner.say("and again")
        calls = [event.body.call for event in await owner.events() if isinstance(event.body, ToolResult)]
        assert len(calls) == len(set(calls)) == 4


async def test_read_is_decided_before_it_happens_for_the_provider_too(tmp_path: Path) -> None:
    probe = Probe(declared=CallFacts(result=CONFIDENTIAL))
    model = Scripted([proposed("probe")], "done")
    config = policy(models={"offline": {"clearance": "INTERNAL"}})
    async with running(tmp_path, config, parts=parts(probe, model=model)) as owner:
        await owner.say("go")
        assert not probe.ran
        assert (await owner.state()).taint == PUBLIC
        assert "read_is_decided_before_it_happens" in model.read()


async def test_a_session_above_its_provider_asks_no_model(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
    model = Scripted("leak")
    config = policy(models={"offline": {"clearance": "INTERNAL"}})
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        shown = await owner.say("what was it?")
        assert "read_is_decided_before_it_happens" in shown
        assert not model.asked
        assert (await owner.state()).taint == parse("CONFIDENTIAL~")
        assert "read_is_decided_before_it_happens" in await owner.say("/why")


async def test_a_stop_while_the_model_thinks_ends_the_turn_and_counts_the_request(tmp_path: Path) -> None:
    model = Scripted("too late", wait=asyncio.Event())
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.send("go")

        async def asked() -> bool:
            return bool(model.asked)

        await eventually(asked)
        shown = await owner.say("/stop")
        assert "stopped" in shown
        assert "too late" not in shown
        assert await reason(owner) is YieldReason.CANCELED
        usage = (await owner.state()).usage
        assert (usage.requests, usage.complete) == (1, False)


async def test_three_refusals_by_people_end_the_turn(tmp_path: Path) -> None:
    send = proposed("message", {"channel": "console", "recipient": "guest", "text": "hello"})
    model = Scripted([proposed("read_file", {"path": "public/welcome.md"})], [send])
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("go")
        shown = ""
        for _ in range(3):
            waiting = [known for known in await owner.app.store.approvals.of(owner.sid) if known.state == "pending"]
            shown = await owner.say(f"/deny {waiting[0].id}")
        assert TOO_MANY_REFUSALS in shown
        assert await reason(owner) is YieldReason.CANCELED
        assert len(model.asked) == 4
        assert not unanswered(await owner.events())


async def test_no_iteration_limit_or_retry_gets_round_a_refusal(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        for _ in range(3):
            await owner.say("\n".join([note("guest", "x")] * 5))
        assert "→ guest" not in owner.shown
        assert [outcome for _, outcome in results(await owner.events())] == ["ok", *["denied"] * 15]
