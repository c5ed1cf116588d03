"""The offline model does what it is told, the same every time."""

import json

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from bot.agent.offline import HELP, OfflineModel
from bot.commands import table

pytestmark = pytest.mark.anyio


async def said(*messages: ModelMessage) -> ModelResponse:
    return await OfflineModel().request(list(messages), None, ModelRequestParameters())


def typed(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def text_of(response: ModelResponse) -> str:
    (part,) = response.parts
    assert isinstance(part, TextPart)
    return part.content


async def test_it_quotes_what_was_said_and_cuts_what_is_long() -> None:
    assert text_of(await said(typed("hello"))) == "You said: hello"
    assert text_of(await said(typed("x" * 300))) == f"You said: {'x' * 200} …"


@pytest.mark.parametrize("text", ["help", "What can you do?", "hi, what can I do here", "Hello! How do I start?"])
async def test_a_question_for_help_names_three_things_to_type(text: str) -> None:
    assert text_of(await said(typed(text))) == HELP
    first, *commands = [line.split("`")[1] for line in HELP.splitlines()[1:]]
    (call,) = (await said(typed(first))).parts
    assert isinstance(call, ToolCallPart)
    assert call.tool_name == "list_files"
    assert [table.BUILT_IN.find(command) is not None for command in commands] == [True, True]


@pytest.mark.parametrize("text", ["help me with the report", "what is this?", "helpful", "what can you do about it"])
async def test_any_other_question_is_quoted(text: str) -> None:
    assert text_of(await said(typed(text))) == f"You said: {text}"


async def test_a_line_proposes_a_call() -> None:
    response = await said(typed('!read_file {"path": "public/welcome.md"}'))
    (part,) = response.parts
    assert isinstance(part, ToolCallPart)
    assert (part.tool_name, part.args) == ("read_file", '{"path": "public/welcome.md"}')


async def test_several_lines_propose_several_calls_in_order() -> None:
    response = await said(typed('!a\nnot a call\n  !b {"x": 1}\n!c {}'))
    assert [part.tool_name for part in response.parts if isinstance(part, ToolCallPart)] == ["a", "b", "c"]
    assert [part.args for part in response.parts if isinstance(part, ToolCallPart)] == ["{}", '{"x": 1}', "{}"]


@pytest.mark.parametrize("text", ["!read_file {broken", "!read_file path", "!a {}\n!b {"])
async def test_arguments_that_are_not_json_propose_nothing(text: str) -> None:
    assert "needs JSON arguments" in text_of(await said(typed(text)))


@pytest.mark.parametrize("text", ["!", "! ", "!!", "!§"])
async def test_a_line_that_names_no_tool_tells_how(text: str) -> None:
    assert "looks like" in text_of(await said(typed(text)))


async def test_deep_arguments_are_no_crash() -> None:
    assert "needs JSON arguments" in text_of(await said(typed("!a " + "[" * 200_000)))


async def test_results_are_told_with_their_tools_and_cut() -> None:
    results = ModelRequest(parts=[ToolReturnPart("a", "one", "1"), ToolReturnPart("b", "y" * 3_000, "2")])
    told = text_of(await said(typed("!a"), results))
    assert told == f"a: one\nb: {'y' * 2_000} …"


async def test_after_its_own_words_it_has_nothing_to_say() -> None:
    assert text_of(await said(ModelResponse(parts=[TextPart("hi")]))) == ""


async def test_it_counts_words_and_says_who_it_is() -> None:
    call = ModelResponse(parts=[ToolCallPart("a", json.dumps({"x": "y z"}), "1")])
    response = await said(typed("one two"), call, ModelRequest(parts=[ToolReturnPart("a", "three four five", "1")]))
    assert response.usage.input_tokens == 5
    assert response.usage.output_tokens == 4
    model = OfflineModel()
    assert (model.model_name, model.system, response.model_name) == ("offline", "offline", "offline")
    assert (await said(typed("!a"))).usage.output_tokens == 1


async def test_with_an_equals_sign_the_answer_is_the_last_line_of_what_the_calls_gave() -> None:
    asked = typed("!read {}\n=\n\nwhatever else")
    read = ModelRequest(parts=[ToolReturnPart("read", "one\ntwo\n", tool_call_id="c")])
    assert text_of(await said(asked, await said(asked), read)) == "two"
    plain = typed("!read {}")
    assert text_of(await said(asked, plain, await said(plain), read)) == "read: one\ntwo\n"


RUN = ModelRequestParameters(function_tools=[ToolDefinition(name="session_initialize")])
NEXT = typed("[the runtime, not your user]\nTurn 1 of this run has ended.")


async def in_run(*messages: ModelMessage) -> list[tuple[str, object]] | str:
    response = await OfflineModel().request(list(messages), None, RUN)
    proposed = (part for part in response.parts if isinstance(part, ToolCallPart))
    calls: list[tuple[str, object]] = [(part.tool_name, part.args) for part in proposed]
    return calls or text_of(response)


async def test_a_run_does_one_part_of_its_goal_in_each_turn_and_stops() -> None:
    goal = typed(
        '!session_initialize {"session_type": "manual"} ;; !a {"x": "!;;b"} !b\n---\n!c {"id": "{session_id}"}'
    )
    begun = ModelRequest(parts=[ToolReturnPart("session_initialize", '{"session_id": "abc2"}')])
    assert await in_run(goal) == [("session_initialize", '{"session_type": "manual"}')]
    assert await in_run(goal, begun) == 'session_initialize: {"session_id": "abc2"}'
    assert await in_run(goal, begun, NEXT) == [("a", '{"x": "!;;b"}'), ("b", "{}")]
    assert await in_run(goal, begun, NEXT, NEXT) == [("c", '{"id": "abc2"}')]
    assert await in_run(goal, begun, NEXT, NEXT, NEXT) == [("session_update", '{"status": "stopped"}')]
    assert await in_run(goal, begun, NEXT, typed("how is it?")) == "You said: how is it?"


async def test_a_run_with_a_goal_in_words_is_initialized_quotes_it_and_stops() -> None:
    goal = typed("tidy up")
    assert await in_run(goal) == [("session_initialize", '{"session_type": "autonomous"}')]
    assert await in_run(goal, NEXT) == "You said: tidy up"
    assert await in_run(goal, NEXT, NEXT) == [("session_update", '{"status": "stopped"}')]
    assert "needs JSON arguments" in await in_run(typed("!a {broken"))
