"""`inspect`: have a model read held items, and answer in bounded fields or in a text that is held in turn."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Self

import anyio
from pydantic import Field, model_validator

from bot.access.decision_context import DecisionContext
from bot.delegation import structured_result
from bot.sessions.models import Inspected, Inspection
from bot.sessions.usage import Usage
from bot.tools.background.spawning import Returns, bounded_by
from bot.tools.base import Arguments, CallFacts, Content, Result, ToolContext, ToolServices
from bot.tools.parameters import UP_TO, raised
from bot.tools.references import INSPECT
from bot.tools.summarize import shown_to
from policy.labels import PUBLIC
from policy.request import Effect

Inspector = Callable[[DecisionContext, Inspection], Awaitable[Inspected]]
"""Asks the session's models about held items."""

SECONDS: Final = 120
"""The most seconds that an inspection takes: a later answer is none."""

TOO_LATE: Final = "the model did not answer in time"
BROKE: Final = "the inspection failed"

_USED: Final = Usage(requests=1, complete=False, priced=False)
"""The use that the session is told, with any items: the tokens depend on them."""

_LOGGER: Final = logging.getLogger(__name__)


class InspectArguments(Arguments):
    """Arguments of `inspect`."""

    refs: list[Content] = Field(min_length=1, max_length=8, description="the ids of held results")
    question: str = Field(min_length=1, max_length=4000, description="the question, with all that it needs to know")
    returns: Returns | None = Field(default=None, min_length=1, max_length=8, description="fields to answer with")
    text: bool = Field(default=False, description="true answers with a text, which is held")
    up_to: str | None = Field(default=None, max_length=2048, description=UP_TO)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.text is (self.returns is not None):
            raise ValueError("needs either `returns` or `text`")
        return self


class Inspect:
    """Have a model that has no tools, history or memory answer a question from held items."""

    name = INSPECT
    description = "Ask a question about held results. The answer comes in fields, or as a text that is held."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = InspectArguments

    def __init__(self, inspect: Inspector, seconds: int = SECONDS) -> None:
        """Ask by `inspect`, for at most so many seconds."""
        self._inspect = inspect
        self._seconds = seconds

    def declare(self, arguments: InspectArguments, context: ToolContext) -> CallFacts:
        """Declare the raise of the session, the fields, and that a model is shown the items."""
        return CallFacts(
            raises=raised(arguments.up_to, context), shows=True, returns=bounded_by(arguments.returns, context.document)
        )

    async def run(self, arguments: InspectArguments, context: ToolContext, services: ToolServices) -> Result:
        """Ask, once the bits of an answer in fields are charged; any failure is the constant for these fields."""
        fields, session = bounded_by(arguments.returns, context.document), context.session
        bounded = await services.endorse(fields, self._seconds) if fields else None
        inspected = await self._inspected(
            shown_to(context, session.taint),
            Inspection(
                arguments.question,
                tuple(arguments.refs),
                fields,
                before=session.before,
                call=context.call,
                veil=services.veil,
                allowance=session.allowance,
            ),
        )
        text = structured_result.answer(fields, inspected.text) if fields else inspected.text or inspected.why
        failed = bool(inspected.why)
        return Result(
            text, session.taint, failed=failed and not fields, usage=_USED, bounded=bounded, spent=inspected.usage
        )

    async def _inspected(self, standing: DecisionContext, inspection: Inspection) -> Inspected:
        """Ask within the time; an error on the way is a failure like any other."""
        inspected = Inspected("", TOO_LATE)
        try:
            with anyio.move_on_after(self._seconds):
                inspected = await self._inspect(standing, inspection)
        except Exception:
            _LOGGER.exception("an inspection broke")
            return Inspected("", BROKE)
        return inspected
