"""Making models by name, asking them, and what their failures are told as."""

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bot.agent.models import Asker, ModelError, make
from bot.agent.offline import OfflineModel
from bot.errors import ConfigError
from bot.sessions.values import Usage
from bot.tools.clock import CurrentTime
from tests.bot.kit import Probe, Scripted

pytestmark = pytest.mark.anyio


def test_offline_is_ours() -> None:
    assert isinstance(make("offline"), OfflineModel)


@pytest.mark.parametrize("name", ["nobody:model", "nonsense", "openai:"])
def test_a_model_that_cannot_be_made_is_the_operators_to_mend(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError) as caught:
        make(name)
    assert name in str(caught.value)
    assert caught.value.next_step


def test_a_missing_package_is_named_with_how_to_install_it() -> None:
    with pytest.raises(ConfigError) as caught:
        make("cohere:command-r")
    assert caught.value.next_step == "install `lockgate[cohere]`"


def prompt() -> list[ModelRequest]:
    return [ModelRequest(parts=[UserPromptPart("hello")])]


async def test_only_our_own_tools_are_offered_and_never_a_native_one() -> None:
    seen = list[AgentInfo]()

    async def answer(_messages: object, info: AgentInfo) -> object:
        seen.append(info)
        return await Scripted("hi").request([], None, ModelRequestParameters())

    asker = Asker(FunctionModel(answer), "be brief", (CurrentTime(), Probe()))  # pyright: ignore[reportArgumentType] - it returns a response
    await asker.ask([*prompt()])
    (info,) = seen
    assert [tool.name for tool in info.function_tools] == ["current_time", "probe"]
    assert all(tool.parameters_json_schema["additionalProperties"] is False for tool in info.function_tools)
    assert not info.model_request_parameters.native_tools
    assert info.instructions == "be brief"


async def test_an_answer_comes_with_what_it_cost() -> None:
    response, usage = await Asker(Scripted("hi"), "", ()).ask([*prompt()])
    assert response.parts[0].part_kind == "text"
    assert usage == Usage(1, 10, 5)
    _, silent = await Asker(Scripted("hi", silent=True), "", ()).ask([*prompt()])
    assert silent == Usage(1, 0, 0, complete=False)


async def test_a_failure_names_its_kind_and_no_content() -> None:
    with pytest.raises(ModelError) as caught:
        await Asker(Scripted(ModelHTTPError(429, "m", "hunter2")), "", ()).ask([*prompt()])
    assert str(caught.value) == "the model's provider answered with status 429"
