"""The context is made of the log alone, and a resumed turn reads what the first attempt read."""

import pytest
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)

from bot.agent.context import assemble, call_of, cuts, response_from, text_of, thought
from bot.sessions.log.event_types import (
    AgentMessage,
    AgentThinking,
    EventBody,
    TaintRaised,
    ToolCall,
    ToolOutcome,
    ToolResult,
    TurnError,
    UnknownEvent,
    UserMessage,
)
from bot.sessions.log.events import Event, Visibility
from bot.sessions.transcript import Tail
from policy.labels import PUBLIC


def log(*entries: EventBody) -> list[Event]:
    return [
        Event(place, place, 1, "x", PUBLIC, body, Visibility.INTERNAL, admitted=True, turn="t")
        for place, body in enumerate(entries, start=1)
    ]


def told(*entries: EventBody) -> Tail:
    return Tail(tuple(log(*entries)))


def asked(text: str = "hello") -> EventBody:
    return UserMessage(text)


def thinks(*calls: str) -> EventBody:
    response = ModelResponse(parts=[ToolCallPart("probe", "{}", tool_call_id=name) for name in calls])
    return thought(response)


def result(name: str, outcome: ToolOutcome = ToolOutcome.OK) -> EventBody:
    return ToolResult(name, "probe", f"read {name}", outcome)


def decided(name: str) -> EventBody:
    return ToolCall(name, "probe", {})


def answered(text: str = "an answer") -> EventBody:
    return AgentMessage(text)


def raised() -> EventBody:
    return TaintRaised(PUBLIC, PUBLIC, "x")


WAITED = thought(ModelResponse(parts=[TextPart("the answer")]))
"""An answer that waits for an approval to be said."""


@pytest.mark.parametrize(
    "entries, after",
    [
        pytest.param([], [], id="nothing"),
        pytest.param([raised(), asked(), answered()], [3], id="not before anything was said"),
        pytest.param([asked(), answered(), asked(), answered()], [2, 4], id="between messages"),
        pytest.param([asked(), thinks("a"), result("a"), thinks("b"), result("b")], [1, 3, 5], id="between steps"),
        pytest.param([asked(), thinks("a", "b"), decided("a"), result("b")], [1], id="not after an open call"),
        pytest.param([asked(), thinks("a", "b"), result("b"), asked(), result("a")], [1, 5], id="nor a message later"),
        pytest.param([asked(), thinks("a"), thinks("b"), result("b"), result("a")], [1, 5], id="nor a step later"),
        pytest.param([asked(), WAITED], [1], id="not after an answer that waits"),
        pytest.param([asked(), WAITED, answered()], [1, 3], id="after one that was said"),
        pytest.param([asked(), WAITED, asked(), answered()], [1, 2, 4], id="after one that was stopped"),
    ],
)
def test_a_context_may_begin_where_no_call_is_without_its_result(entries: list[EventBody], after: list[int]) -> None:
    assert list(cuts(log(*entries))) == after


def test_an_empty_log_is_an_empty_context() -> None:
    context = assemble(Tail(()))
    assert (context.messages, context.last_response, context.open_calls, context.spoken) == ([], None, (), None)


def test_what_people_and_the_agent_said_comes_in_order() -> None:
    context = assemble(told(asked("one"), AgentMessage("two"), asked("three")))
    said = [getattr(message.parts[0], "content", None) for message in context.messages]
    assert said == ["one", "two", "three"]
    assert context.last_response is None


def test_no_result_is_dropped_when_only_some_calls_were_answered() -> None:
    context = assemble(told(asked(), thinks("a", "b", "c"), decided("a"), decided("b"), result("b")))
    assert [call.id for call in context.open_calls] == ["a", "c"]
    assert context.decided.keys() == {"a", "b"}
    assert context.answered == {"b"}


@pytest.mark.parametrize(
    "outcome, shown",
    [
        (ToolOutcome.OK, "success"),
        (ToolOutcome.HELD, "success"),
        (ToolOutcome.FAILED, "failed"),
        (ToolOutcome.DENIED, "denied"),
        (ToolOutcome.INTERRUPTED, "interrupted"),
    ],
)
def test_results_of_one_step_come_as_one_message(outcome: ToolOutcome, shown: str) -> None:
    context = assemble(told(asked(), thinks("a", "b"), result("a", outcome), result("b")))
    last = context.messages[-1]
    assert isinstance(last, ModelRequest)
    found = [(part.tool_call_id, part.outcome) for part in last.parts if isinstance(part, ToolReturnPart)]
    assert found == [("a", shown), ("b", "success")]
    assert context.open_calls == ()


def test_an_answer_that_waited_for_an_approval_stands_once() -> None:
    waited = thought(ModelResponse(parts=[TextPart("the answer")]))
    context = assemble(told(asked(), waited))
    assert context.spoken == "the answer"
    context = assemble(told(asked(), waited, AgentMessage("the answer, redacted")))
    assert len(context.messages) == 2
    assert context.spoken == "the answer, redacted"


def test_a_response_that_calls_is_not_an_answer() -> None:
    assert assemble(told(asked(), thinks("a"))).spoken is None


def test_other_events_do_not_enter_the_context() -> None:
    others = (raised(), TurnError("r1", "x"), UnknownEvent("chat.reaction", {"text": "x"}))
    assert len(assemble(told(asked(), *others)).messages) == 1


def test_a_response_comes_back_as_it_was() -> None:
    response = ModelResponse(
        parts=[ThinkingPart("hmm", signature="s"), TextPart("a"), ToolCallPart("p", '{"x": 1}', tool_call_id="c")],
        model_name="m",
        provider_name="p",
        provider_details={"k": "v"},
    )
    again = response_from(thought(response))
    assert again.parts == response.parts
    assert again.provider_details == {"k": "v"}
    assert text_of(again) == "a"


def test_what_holds_no_response_is_refused() -> None:
    kept = AgentThinking({"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "x"}]})
    with pytest.raises(TypeError, match="no model response"):
        response_from(kept)


@pytest.mark.parametrize(
    "given, taken",
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (None, {}),
        ("{}", {}),
        ("[]", None),
        ("7", None),
        ("{broken", None),
        ("NaN", None),
        ('{"a": Infinity}', None),
        ('{"a": -1e999}', None),
        ({"a": float("nan")}, None),
        ("[" * 100_000, None),
        ('{"a": ' + "1" * 5_000 + "}", None),
    ],
    ids=str,
)
def test_arguments_are_a_json_object_or_nothing(given: object, taken: object) -> None:
    part = ToolCallPart("probe", given, tool_call_id="c")  # pyright: ignore[reportArgumentType] - what a model may send
    assert call_of(part).arguments == taken
