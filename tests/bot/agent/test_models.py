"""Asking one model: what is offered, what it cost, and what its failures are told as."""

from pathlib import Path

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from bot.agent.models import UNKNOWN, ModelClient, ModelError, toolset
from bot.agent.offline import OfflineModel
from bot.agent.providers import Seat, seats
from bot.agent.window import Window, estimated
from bot.config.model import ModelSettings, ProviderSettings
from bot.core.errors import ConfigError
from bot.sessions.usage import Usage
from bot.tools.background.runs import RunTool
from bot.tools.clock import CurrentTime
from tests.bot.kit import UNLIMITED, Probe, Scripted, parts, standing
from tests.harness import running

pytestmark = pytest.mark.anyio

NO_TOOLS = ModelRequestParameters()
PRICES = ProviderSettings(input_price=2, output_price=3)


def prompt(text: str = "hello") -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart(text)])]


def seat(model: Model, settings: ProviderSettings = PRICES) -> Seat:
    return Seat("scripted:x", model, settings)


def asker(retries: int = 0) -> ModelClient:
    return ModelClient(ModelSettings(retries=retries), UNLIMITED)


def test_offline_is_ours_and_costs_nothing() -> None:
    (made,) = seats(ModelSettings(), {}).all
    assert isinstance(made.model, OfflineModel)
    assert (made.settings.input_price, made.settings.output_price) == (0, 0)


@pytest.mark.parametrize("said", [{"base_url": "http://x"}, {"key": "A_KEY"}])
def test_an_address_of_its_own_is_for_providers_that_take_one(said: dict[str, str]) -> None:
    settings = ModelSettings(name="bedrock:x", providers={"bedrock:x": ProviderSettings.model_validate(said)})
    with pytest.raises(ConfigError, match=r"takes neither `base_url` nor `key`|a package that is not installed"):
        seats(settings, {"A_KEY": "x"})


def test_a_model_that_its_library_refuses_is_the_operators_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    with pytest.raises(ConfigError) as caught:
        seats(ModelSettings(name="deepseek:x"), {})
    assert "deepseek:x" in str(caught.value)
    assert caught.value.next_step == "set DEEPSEEK_API_KEY in the environment"


@pytest.mark.parametrize(
    "name,variable",
    [
        ("ollama:llama3", "OLLAMA_BASE_URL"),
        ("openrouter:openai/gpt-5", "OPENROUTER_API_KEY"),
        ("deepseek:x", "DEEPSEEK_API_KEY"),
        ("openai:x", "OPENAI_API_KEY"),
        ("anthropic:x", "ANTHROPIC_API_KEY"),
    ],
)
def test_a_model_without_its_variable_names_it(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError) as caught:
        seats(ModelSettings(name=name), {})
    assert caught.value.next_step == f"set {variable} in the environment"
    assert name in str(caught.value)


def test_a_model_that_is_named_wrongly_names_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-hunter2")
    with pytest.raises(ConfigError) as caught:
        seats(ModelSettings(name="openrouter:gpt"), {"OPENROUTER_API_KEY": "sk-hunter2"})
    assert caught.value.next_step == "check its name and that its key is in the environment"


@pytest.mark.parametrize("name,package", [("groq:x", "pydantic-ai-slim[groq]")])
def test_a_package_that_is_not_there_is_named(name: str, package: str) -> None:
    with pytest.raises(ConfigError) as caught:
        seats(ModelSettings(name=name), {})
    assert caught.value.next_step == f"install `{package}`"


@pytest.mark.parametrize(
    "model,said,told",
    [
        ("openai:x", {}, "the environment variable OPENAI_API_KEY"),
        ("openai:x", {"key": "MINE", "base_url": "http://127.0.0.1:1/v1"}, "the environment variable MINE"),
        ("openai:x", {"base_url": "http://127.0.0.1:1/v1"}, "its name into `key` beside `base_url`"),
        ("deepseek:x", {}, "the environment"),
    ],
)
def test_where_a_key_belongs_is_told(model: str, said: dict[str, str], told: str) -> None:
    named = Seat(model, Scripted("hi"), ProviderSettings.model_validate(said))
    assert told in named.key


async def test_only_our_own_tools_are_offered_and_never_a_native_one(tmp_path: Path) -> None:
    parameters = toolset((CurrentTime(), Probe()))
    assert [tool.name for tool in parameters.function_tools] == ["current_time", "probe"]
    assert all(tool.parameters_json_schema["additionalProperties"] is False for tool in parameters.function_tools)
    assert not parameters.native_tools
    model = Scripted("hi")
    async with running(tmp_path, '{"model": {"instructions": "be brief"}}', parts=parts(model=model)) as owner:
        await owner.say("hello")
        assert [tool.name for tool in model.parameters[0].function_tools] == [
            tool.name for tool in owner.app.gate.tools if not isinstance(tool, RunTool)
        ]
    assert [told.partition("\n\n")[0] for told in model.instructions] == ["be brief"]


async def test_an_answer_comes_with_what_it_cost() -> None:
    response, usage = await asker().ask(standing(), seat(Scripted("hi")), prompt(), parameters=NO_TOOLS)
    assert response.parts[0].part_kind == "text"
    assert usage == Usage(1, 10, 5, cost=35)
    _, silent = await asker().ask(standing(), seat(Scripted("hi", silent=True)), prompt(), parameters=NO_TOOLS)
    assert silent == Usage(1, 0, 0, complete=False, priced=False)
    _, unpriced = await asker().ask(
        standing(), seat(Scripted("hi"), ProviderSettings(input_price=2)), prompt(), parameters=NO_TOOLS
    )
    assert unpriced == Usage(1, 10, 5, priced=False)


async def test_a_failure_names_its_kind_and_no_content() -> None:
    with pytest.raises(ModelError) as caught:
        await asker().ask(
            standing(), seat(Scripted(ModelHTTPError(429, "m", "hunter2"))), prompt(), parameters=NO_TOOLS
        )
    assert str(caught.value) == "the model's provider answered with status 429"
    assert caught.value.detail == "scripted:x: status 429, 1 attempts"
    assert caught.value.usage == Usage(1)


async def test_what_a_broken_attempt_cost_is_not_known() -> None:
    _, usage = await asker(1).ask(standing(), seat(Scripted(OSError("hunter2"), "hi")), prompt(), parameters=NO_TOOLS)
    assert usage == UNKNOWN.plus(Usage(1, 10, 5, cost=35))


async def test_a_response_at_once_that_is_too_long_is_given_up() -> None:
    with pytest.raises(ModelError, match="too long"):
        await asker().ask(standing(), seat(Scripted("x" * 2_000_001)), prompt(), parameters=NO_TOOLS)


def test_a_window_leaves_room_for_the_answer() -> None:
    assert Window.of(seat(Scripted("hi"))).tokens is None
    assert Window.of(seat(Scripted("hi"), ProviderSettings(context_tokens=100_000))).tokens == 95_904
    assert Window.of(seat(Scripted("hi"), ProviderSettings(context_tokens=100_000, output_tokens=10))).tokens == 99_990
    assert Window.of(seat(Scripted("hi"), ProviderSettings(context_tokens=1000))).tokens == 500
    assert Window.of(seat(Scripted("hi"), ProviderSettings(context_tokens=100_000)), 10_000).tokens == 8000
    assert Window.of(seat(Scripted("hi")), 10_000).tokens == 8000
    assert Window(500).holds(prompt("x" * 1400), NO_TOOLS)
    assert not Window(500).holds(prompt("x" * 1500), NO_TOOLS)
    assert Window(None).holds(prompt("x" * 150_000), NO_TOOLS)


def test_windows_of_known_models_need_no_configuration() -> None:
    known = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(api_key="none"))
    assert Window.of(Seat("openai-chat:gpt-4o", known, ProviderSettings())).tokens == 128_000 - 4096
    assert Window.of(Seat("openai-chat:gpt-4o", known, ProviderSettings(context_tokens=9000))).tokens == 9000 - 4096


def test_tools_and_arguments_count() -> None:
    assert estimated(prompt(), toolset((Probe(),))) > estimated(prompt(), NO_TOOLS) + 50
