"""Handing a model a long conversation without a look at each of its messages on the way.

The library's `direct` looks for kinds of parts that we never make, through all messages, before each request: a tenth
of a turn where there are five thousand of them. So it is given the last message alone, and a model that puts the others
before it. It is given all of them where it has to change their text: where a profile asks for that, special tokens of
chat templates are broken.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings


class _Continued(WrapperModel):
    """A model that puts the messages it was made with before those of each request."""

    def __init__(self, model: Model, before: Sequence[ModelMessage]) -> None:
        super().__init__(model)
        self._before = before

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        return await self.wrapped.request([*self._before, *messages], model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        whole = [*self._before, *messages]
        async with self.wrapped.request_stream(whole, model_settings, model_request_parameters, run_context) as stream:
            yield stream


def continued(model: Model, messages: Sequence[ModelMessage]) -> tuple[Model, Sequence[ModelMessage]]:
    """Return a model and messages for `pydantic_ai.direct`, so that this model is asked with these messages."""
    if model.profile.get("may_tokenize_special_tokens_in_content", False):
        return model, messages
    return _Continued(model, messages[:-1]), messages[-1:]
