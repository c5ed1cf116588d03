"""The model behind a name in the configuration, made when the first turn needs it.

`offline` is ours; any other name is `provider:model` as pydantic-ai knows it, with the key from the
provider's own environment variable. Foreign errors become ModelError, whose text never holds a
provider's answer.
"""

from pydantic_ai import models
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import AgentRunError, ModelHTTPError, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, NativeToolCallPart, NativeToolReturnPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from bot.agent import offline
from bot.errors import ConfigError, LockgateError
from bot.sessions.values import Usage
from bot.tools.base import Tool


class ModelError(LockgateError):
    """The model did not answer; the text names the kind of failure and no content."""

    code = "model"


def make(name: str) -> Model:
    """Return the model of a configured name.

    Raises ConfigError: the provider is unknown, its package is not installed, or its key is missing.
    """
    if name == offline.NAME:
        return offline.OfflineModel()
    try:
        return models.infer_model(name)
    except ImportError:
        provider = name.partition(":")[0]
        raise ConfigError(
            f"model `{name}` needs a package that is not installed", next_step=f"install `lockgate[{provider}]`"
        ) from None
    except (UserError, ValueError) as error:
        raise ConfigError(
            f"model `{name}` cannot be used", next_step="check its name and that its key is in the environment"
        ) from error


class Asker:
    """Asks one model; `instructions` is the fixed system text, `tools` what is offered."""

    def __init__(self, model: Model, instructions: str, tools: tuple[Tool, ...]) -> None:
        self._model = model
        self._instructions = instructions
        # Nothing but our own tools is ever offered: a native tool would run at the provider, past the gate.
        self._parameters = ModelRequestParameters(function_tools=[_definition(tool) for tool in tools])

    async def ask(self, messages: list[ModelMessage]) -> tuple[ModelResponse, Usage]:
        """Return the model's response and what it cost.

        Raises ModelError: it did not answer, or answered with a tool run at the provider.
        """
        last = messages[-1]
        last.instructions = self._instructions  # pyright: ignore[reportAttributeAccessIssue] - the last is a request
        try:
            response = await model_request(self._model, messages, model_request_parameters=self._parameters)
        except ModelHTTPError as error:
            raise ModelError(f"the model's provider answered with status {error.status_code}") from error
        except (AgentRunError, OSError) as error:
            raise ModelError("the model did not answer") from error
        if any(isinstance(part, NativeToolCallPart | NativeToolReturnPart) for part in response.parts):
            raise ModelError("the model used a tool of its provider, which the gate does not allow")
        return response, _usage(response)


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=tool.arguments.model_json_schema()
    )


def _usage(response: ModelResponse) -> Usage:
    """Return what a response cost; a provider that says nothing makes it incomplete, not free."""
    usage = response.usage
    known = bool(usage.input_tokens or usage.output_tokens)
    return Usage(1, usage.input_tokens, usage.output_tokens, complete=known)
