"""The context is made of the log alone, and a resumed turn reads what the first attempt read."""

import pytest
from pydantic import JsonValue
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)

from bot.agent.context import assemble, call_of, cuts, response_body, response_from, text_of
from bot.sessions.events import Event, EventType, Visibility
from bot.sessions.transcript import Tail
from policy.labels import PUBLIC


def log(*entries: tuple[EventType, dict[str, JsonValue]]) -> list[Event]:
    return [
        Event(place, place, 1, kind, "x", PUBLIC, body, Visibility.INTERNAL, admitted=True, turn="t")
        for place, (kind, body) in enumerate(entries, start=1)
    ]


def told(*entries: tuple[EventType, dict[str, JsonValue]]) -> Tail:
    return Tail(tuple(log(*entries)))


def asked(text: str = "hello") -> tuple[EventType, dict[str, JsonValue]]:
    return EventType.USER_MESSAGE, {"text": text}


def thought(*calls: str) -> tuple[EventType, dict[str, JsonValue]]:
    response = ModelResponse(parts=[ToolCallPart("probe", "{}", tool_call_id=name) for name in calls])
    return EventType.AGENT_THINKING, response_body(response)


def result(name: str, outcome: str = "ok") -> tuple[EventType, dict[str, JsonValue]]:
    return EventType.TOOL_RESULT, {"call": name, "tool": "probe", "text": f"read {name}", "outcome": outcome}


def decided(name: str) -> tuple[EventType, dict[str, JsonValue]]:
    return EventType.TOOL_CALL, {"call": name, "tool": "probe", "arguments": {}}


def answered(text: str = "an answer") -> tuple[EventType, dict[str, JsonValue]]:
    return EventType.AGENT_MESSAGE, {"text": text}


def raised() -> tuple[EventType, dict[str, JsonValue]]:
    return EventType.TAINT_RAISED, {}


WAITED = EventType.AGENT_THINKING, response_body(ModelResponse(parts=[TextPart("the answer")]))
"""An answer that waits for an approval to be said."""


@pytest.mark.parametrize(
    "entries, after",
    [
        pytest.param([], [], id="nothing"),
        pytest.param([raised(), asked(), answered()], [3], id="not before anything was said"),
        pytest.param([asked(), answered(), asked(), answered()], [2, 4], id="between messages"),
        pytest.param([asked(), thought("a"), result("a"), thought("b"), result("b")], [1, 3, 5], id="between steps"),
        pytest.param([asked(), thought("a", "b"), decided("a"), result("b")], [1], id="not after an open call"),
        pytest.param([asked(), thought("a", "b"), result("b"), asked(), result("a")], [1, 5], id="nor a message later"),
        pytest.param([asked(), thought("a"), thought("b"), result("b"), result("a")], [1, 5], id="nor a step later"),
        pytest.param([asked(), WAITED], [1], id="not after an answer that waits"),
        pytest.param([asked(), WAITED, answered()], [1, 3], id="after one that was said"),
        pytest.param([asked(), WAITED, asked(), answered()], [1, 2, 4], id="after one that was stopped"),
    ],
)
def test_a_context_may_begin_where_no_call_is_without_its_result(
    entries: list[tuple[EventType, dict[str, JsonValue]]], after: list[int]
) -> None:
    assert list(cuts(log(*entries))) == after


def test_an_empty_log_is_an_empty_context() -> None:
    context = assemble(Tail(()))
    assert (context.messages, context.last_response, context.open_calls, context.spoken) == ([], None, (), None)


def test_what_people_and_the_agent_said_comes_in_order() -> None:
    context = assemble(told(asked("one"), (EventType.AGENT_MESSAGE, {"text": "two"}), asked("three")))
    said = [getattr(message.parts[0], "content", None) for message in context.messages]
    assert said == ["one", "two", "three"]
    assert context.last_response is None


def test_no_result_is_dropped_when_only_some_calls_were_answered() -> None:
    context = assemble(told(asked(), thought("a", "b", "c"), decided("a"), decided("b"), result("b")))
    assert [call.id for call in context.open_calls] == ["a", "c"]
    assert context.decided == {"a", "b"}
    assert context.answered == {"b"}


@pytest.mark.parametrize(
    "outcome, shown",
    [("ok", "success"), ("failed", "failed"), ("denied", "denied"), ("interrupted", "interrupted")],
)
def test_results_of_one_step_come_as_one_message(outcome: str, shown: str) -> None:
    context = assemble(told(asked(), thought("a", "b"), result("a", outcome), result("b")))
    last = context.messages[-1]
    assert isinstance(last, ModelRequest)
    found = [(part.tool_call_id, part.outcome) for part in last.parts if isinstance(part, ToolReturnPart)]
    assert found == [("a", shown), ("b", "success")]
    assert context.open_calls == ()


def test_an_answer_that_waited_for_an_approval_stands_once() -> None:
    waited = EventType.AGENT_THINKING, response_body(ModelResponse(parts=[TextPart("the answer")]))
    context = assemble(told(asked(), waited))
    assert context.spoken == "the answer"
    context = assemble(told(asked(), waited, (EventType.AGENT_MESSAGE, {"text": "the answer, redacted"})))
    assert len(context.messages) == 2
    assert context.spoken == "the answer, redacted"


def test_a_response_that_calls_is_not_an_answer() -> None:
    assert assemble(told(asked(), thought("a"))).spoken is None


def test_other_events_do_not_enter_the_context() -> None:
    body: dict[str, JsonValue] = {"text": "x"}
    others = [(kind, body) for kind in (EventType.TAINT_RAISED, EventType.POLICY_DECISION, EventType.ERROR)]
    assert len(assemble(told(asked(), *others)).messages) == 1


def test_a_response_comes_back_as_it_was() -> None:
    response = ModelResponse(
        parts=[ThinkingPart("hmm", signature="s"), TextPart("a"), ToolCallPart("p", '{"x": 1}', tool_call_id="c")],
        model_name="m",
        provider_name="p",
        provider_details={"k": "v"},
    )
    again = response_from(response_body(response))
    assert again.parts == response.parts
    assert again.provider_details == {"k": "v"}
    assert text_of(again) == "a"


def test_what_holds_no_response_is_refused() -> None:
    body: dict[str, JsonValue] = {
        "response": {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "x"}]}
    }
    with pytest.raises(TypeError, match="no model response"):
        response_from(body)


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
