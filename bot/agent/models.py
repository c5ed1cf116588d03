"""Asking one model: in a stream where it can, with time limits, and again where that may help.

Foreign errors become ModelError, whose text never holds a provider's answer. An answer is taken only if the provider
said that it is finished. One that was cut off on the way is asked for again or is an error, never half an answer. Every
attempt counts as a request; the cost of a broken one is unknown.
"""

import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final

import anyio
import httpx2
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestTimeout,
    ModelTimeoutError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings as Wishes
from pydantic_ai.tools import ToolDefinition

from bot.access.decision_context import DecisionContext
from bot.agent.continued import continued
from bot.agent.pictures import has_pictures, without_pictures
from bot.agent.providers import Seat
from bot.agent.window import most
from bot.budgets import Budget, BudgetError
from bot.config.model import ModelSettings, ProviderSettings
from bot.core.errors import LockgateError
from bot.core.faults import Fault, refused, unreached
from bot.sessions.audit import AuditRow
from bot.sessions.usage import Usage
from bot.tools.base import Tool
from bot.tools.references import offered

LONGEST: Final = 2_000_000
"""Characters of one response, thinking and arguments included; a longer one is given up."""

UNUSABLE: Final = "the model cannot be used until the operator mends that"
"""The only sentence to a chat about a fault that the operator has to mend."""

CUT_SHORT: Final = "\n\n(the answer ends here because it reached the limit of output tokens)"

UNKNOWN: Final = Usage(requests=1, complete=False, priced=False)
"""A request of unknown cost."""

_LOGGER: Final = logging.getLogger(__name__)
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_REFUSED_UNREAD: Final = frozenset({400, 401, 402, 403, 404, 422, 429, 529})
_NOT_TAKEN: Final = frozenset({400, 413, 415, 422})
_FIRST_WAIT: Final = 0.5
# The sentences of the providers that pydantic-ai knows, and of servers of local models, about a request that does not
# fit.
_TOO_LARGE: Final = re.compile(
    r"context.?(?:length|window|size)|maximum context|(?:prompt|input|request|messages?) (?:is|are) too (?:long|large)"
    r"|too many (?:input )?tokens|maximum (?:number of )?(?:input )?tokens|exceed\w* .{0,60}\btokens\b",
    re.IGNORECASE,
)
_LONGEST_REFUSAL: Final = 2000

_MOST_TOLD: Final = 2**40
"""The most tokens, and the highest cost in millionths, that one response counts."""


CROWDED: Final = Fault(
    "the definitions of its tools alone fill its window",
    "raise its `context_tokens` if it reads more, or choose a model that does; `lockgate doctor` has the sizes",
)

Show = Callable[[str], Awaitable[None]]
"""Called with the text of an answer so far, and with an empty one if it is not an answer after all."""


class ModelError(LockgateError):
    """The model did not answer; the text names the kind of failure and no content.

    `detail` is for operators and holds no content either. `usage` is the cost of the attempts. `again` tells that it
    may help to ask once more. `mend` names the faults for the operator, in a line for each model.
    """

    code = "model"

    def __init__(
        self, message: str, *, detail: str = "", usage: Usage = UNKNOWN, again: bool = True, mend: str = ""
    ) -> None:
        super().__init__(message)
        self.detail = detail or message
        self.usage = usage
        self.again = again
        self.mend = mend

    @property
    def told(self) -> str:
        """The sentence for the asker."""
        return f"{self}; try again" if self.again else str(self)


class TooLargeError(ModelError):
    """The request is larger than the model's window, as its provider says."""

    code = "too_large"


class OverBudgetError(ModelError):
    """The model was not asked, or not again, since a budget does not suffice; `row` is for the audit."""

    code = "budget"

    def __init__(self, error: BudgetError, row: AuditRow, usage: Usage) -> None:
        super().__init__(str(error), usage=usage)
        self.row = row

    @property
    def told(self) -> str:
        """The sentence for the asker, with its next step."""
        return str(self)


class _FailureError(Exception):
    """One attempt failed; `wait` is how many seconds the provider asks for, None if it did not say.

    `again` tells that the same request may be answered another time, `refused` that it was not taken as it was. `fault`
    is why, for operators.
    """

    def __init__(  # noqa: PLR0913 - all that is known of an attempt
        self,
        told: str,
        detail: str,
        *,
        again: bool,
        fault: Fault | None = None,
        wait: float | None = None,
        free: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(told)
        self.fault = fault or Fault(detail)
        self.told = UNUSABLE if self.fault.step else told
        self.detail = detail
        self.again = again
        self.wait = wait
        self.refused = refused
        self.usage = Usage(requests=1) if free else UNKNOWN


class _LargeError(_FailureError):
    """The request does not fit into the window, as the provider says."""


class ModelClient:
    """Asks models one at a time, within the times and the budgets that the configuration gives."""

    def __init__(self, settings: ModelSettings, budget: Budget) -> None:
        self._settings = settings
        self._budget = budget

    async def ask(
        self,
        standing: DecisionContext,
        seat: Seat,
        messages: Sequence[ModelMessage],
        *,
        parameters: ModelRequestParameters,
        show: Show | None = None,
    ) -> tuple[ModelResponse, Usage]:
        """Return a model's response and its cost, failed attempts included.

        Raises ModelError: it did not answer, or answered with a tool run at the provider. TooLargeError: the request
        does not fit. OverBudgetError.
        """
        used, attempt = Usage(), 0
        messages = messages if seat.sees else without_pictures(messages)
        with anyio.move_on_after(self._settings.answer_seconds) as limit:
            while True:
                try:
                    response, usage = await self._paid(standing, seat, messages, parameters=parameters, show=show)
                    return response, used.plus(usage)
                except BudgetError as error:
                    raise OverBudgetError(error, error.row(standing), used) from None
                except _FailureError as failure:
                    used = used.plus(failure.usage)
                    if show is not None:
                        await show("")
                    if failure.refused and has_pictures(messages):
                        # It may not take one of them, which would otherwise end every turn of this conversation.
                        messages = without_pictures(messages)
                        continue
                    wait = _FIRST_WAIT * 2**attempt if failure.wait is None else failure.wait
                    attempt += 1
                    _log_failed(standing, seat, failure.fault, attempt)
                    left = min(limit.deadline - anyio.current_time(), self._settings.retry_wait_seconds)
                    if not failure.again or attempt > self._settings.retries or wait > left:
                        detail = f"{seat.name}: {failure.detail}, {attempt} attempts"
                        kind = TooLargeError if isinstance(failure, _LargeError) else ModelError
                        mend = _mending(seat, failure.fault)
                        again = failure.again and not mend
                        raise kind(failure.told, detail=detail, usage=used, again=again, mend=mend) from None
                await anyio.sleep(wait)
        detail = f"{seat.name}: no answer in {self._settings.answer_seconds:g} seconds"
        _log_failed(standing, seat, Fault(f"no answer in {self._settings.answer_seconds:g} seconds"), attempt + 1)
        raise ModelError("the model did not answer in time", detail=detail, usage=used.plus(UNKNOWN))

    async def _paid(
        self,
        standing: DecisionContext,
        seat: Seat,
        messages: Sequence[ModelMessage],
        *,
        parameters: ModelRequestParameters,
        show: Show | None,
    ) -> tuple[ModelResponse, Usage]:
        """Make one attempt within the budgets, and return its cost.

        Raises BudgetError: one of them does not suffice. _FailureError.
        """
        async with self._budget.spending(standing, partial(most, seat, messages, parameters)) as spending:
            try:
                response = await self._once(seat, messages, parameters, show)
            except _FailureError as failure:
                spending.used = failure.usage
                raise
            usage = spending.used = _usage(response, seat.settings)
        return response, usage

    async def _once(
        self, seat: Seat, messages: Sequence[ModelMessage], parameters: ModelRequestParameters, show: Show | None
    ) -> ModelResponse:
        """Make one attempt.

        Raises _FailureError: it gave nothing that may be used.
        """
        wishes = Wishes(max_retries=0, first_event_timeout=self._settings.first_byte_seconds)
        if seat.settings.output_tokens is not None:
            wishes["max_tokens"] = seat.settings.output_tokens
        model, rest = continued(seat.model, messages)
        try:
            if not _streams(seat):
                response = await model_request(model, rest, model_settings=wishes, model_request_parameters=parameters)
            else:
                async with model_request_stream(
                    model, rest, model_settings=wishes, model_request_parameters=parameters
                ) as stream:
                    progress = _Progress(show)
                    async for event in stream:
                        await progress.take(event)
                    response = stream.get()
                if "finish_reason" not in (response.provider_details or {}):
                    raise _FailureError("the model's answer was cut off", "the stream ended early", again=True)
        except ModelHTTPError as error:
            raise _by_status(seat, error) from error
        except (ModelRequestTimeout, ModelTimeoutError) as error:
            raise _FailureError("the model did not answer in time", type(error).__name__, again=True) from error
        except (AgentRunError, httpx2.HTTPError, ValueError, OSError) as error:
            wait, fault = error.retry_after if isinstance(error, ModelAPIError) else None, unreached(error)
            raise _FailureError(
                "the model did not answer", type(error).__name__, again=True, fault=fault, wait=wait
            ) from error
        return _checked(response)


class _Progress:
    """Follows a stream: its text so far, and whether it has become too long."""

    def __init__(self, show: Show | None) -> None:
        self._show = show
        self._text = ""
        self._length = 0

    async def take(self, event: ModelResponseStreamEvent) -> None:
        """Take one event, and show the text as far as it is known.

        A response that calls a tool is not an answer, and its other text is thinking: it is shown no further.
        """
        self._length += len(_content(event))
        if self._length > LONGEST:
            raise _FailureError("the model's answer is too long", f"over {LONGEST} characters", again=False)
        if self._show is None:
            return
        if isinstance(event, PartStartEvent) and not isinstance(event.part, TextPart | ThinkingPart):
            await self._show("")
            self._show = None
            return
        text = _text(event)
        if text:
            self._text += text
            await self._show(self._text)


def _log_failed(standing: DecisionContext, seat: Seat, fault: Fault, attempt: int) -> None:
    """Log an attempt that failed; the owner is alerted of a fault that only they can mend."""
    facts = {
        "subject": f"model `{seat.name}`",
        "cause": fault.cause,
        "address": seat.address,
        "step": fault.step,
        "attempt": attempt,
        "label": standing.taint.join(standing.visibility),
        "alert": bool(fault.step),
    }
    _LOGGER.warning("a model did not answer", extra=facts)


def unusable(standing: DecisionContext, seat: Seat, fault: Fault) -> ModelError:
    """Return the error for a model that is not asked, which only the operator can mend, and log it."""
    _log_failed(standing, seat, fault, 0)
    return ModelError(UNUSABLE, detail=f"{seat.name}: {fault.cause}", again=False, mend=_mending(seat, fault))


def barred(standing: DecisionContext, subject: str, fault: Fault) -> ModelError:
    """Return the error for a session none of whose models is asked, which only the operator can mend, and log it."""
    label = standing.taint.join(standing.visibility)
    facts = {"subject": subject, "cause": fault.cause, "step": fault.step, "label": label, "alert": True}
    _LOGGER.warning("an agent cannot be used", extra=facts)
    mend = f"{fault.cause}; {fault.step}"
    return ModelError(UNUSABLE, detail=f"{subject}: {fault.cause}", usage=Usage(), again=False, mend=mend)


def _mending(seat: Seat, fault: Fault) -> str:
    """Return the fault that the operator has to mend, empty for none."""
    there = f" at {seat.address}" if seat.address else ""
    return f"model `{seat.name}`{there}: {fault.cause}; {fault.step}" if fault.step else ""


def toolset(tools: Iterable[Tool]) -> ModelRequestParameters:
    """Return the tools that models are offered: our own and no native one, which would run at the provider."""
    return ModelRequestParameters(function_tools=[_definition(tool) for tool in tools])


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=offered(tool))


def _text(event: ModelResponseStreamEvent) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _content(event: ModelResponseStreamEvent) -> str:
    """Return the text that an event adds to a response: text, thinking, or arguments."""
    if isinstance(event, PartStartEvent):
        return str(getattr(event.part, "content", None) or getattr(event.part, "args", None) or "")
    if isinstance(event, PartDeltaEvent):
        return str(getattr(event.delta, "content_delta", None) or getattr(event.delta, "args_delta", None) or "")
    return ""


def _streams(seat: Seat) -> bool:
    return seat.settings.stream and type(seat.model).request_stream is not Model.request_stream


def _by_status(seat: Seat, error: ModelHTTPError) -> _FailureError:
    code = f" {error.provider_error_code[:40]}" if error.provider_error_code else ""
    quota, large = isinstance(error, ModelQuotaExceededError), _is_too_large(error)
    again = error.status_code in _AGAIN and not quota
    fault = refused(error.status_code, key=seat.key, quota=quota)
    kind = _LargeError if large else _FailureError
    return kind(
        f"the model's provider answered with status {error.status_code}",
        f"status {error.status_code}{code}",
        fault=Fault("the request is longer than its window") if large else fault,
        again=again and error.provider_retry_hint is not False,
        wait=error.retry_after,
        free=error.status_code in _REFUSED_UNREAD and not error.in_stream,
        refused=error.status_code in _NOT_TAKEN,
    )


def _is_too_large(error: ModelHTTPError) -> bool:
    """Say whether a request was refused because it is longer than the window, as providers word that."""
    if error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return True
    said = f"{error.provider_error_code} {error.body}"[:_LONGEST_REFUSAL]
    return error.status_code in _NOT_TAKEN and _TOO_LARGE.search(said) is not None


def _checked(response: ModelResponse) -> ModelResponse:
    """Return a response as it may go on.

    Raises _FailureError: it holds a tool run at the provider, is no whole answer, or is too long.
    """
    if any(isinstance(part, NativeToolCallPart | NativeToolReturnPart) for part in response.parts):
        told = "the model used a tool of its provider, which the gate does not allow"
        raise _FailureError(told, "a native tool", again=False)
    if response.finish_reason == "content_filter":
        # The other text is not an answer: it was stopped on the way, or says that there is none.
        raise _FailureError("the model's provider refused to answer this", "refused by its filter", again=False)
    if response.finish_reason == "error" or response.state != "complete":
        raise _FailureError("the model's answer was cut off", "its answer is not complete", again=True)
    if sum(len(str(getattr(part, "content", None) or getattr(part, "args", ""))) for part in response.parts) > LONGEST:
        raise _FailureError("the model's answer is too long", f"over {LONGEST} characters", again=False)
    if response.finish_reason == "length" and not response.tool_calls:
        return replace(response, parts=[*response.parts, TextPart(CUT_SHORT)])
    return response


def _usage(response: ModelResponse, settings: ProviderSettings) -> Usage:
    """Return the cost of a response; if the provider does not say, it is incomplete, not free."""
    used = response.usage
    # The provider's counts are bounded, so that no sum of them outgrows a record.
    inward, outward = (min(max(tokens, 0), _MOST_TOLD) for tokens in (used.input_tokens, used.output_tokens))
    known = bool(inward or outward) and not used.unmeasured_requests
    if settings.input_price is None or settings.output_price is None or not known:
        return Usage(1, inward, outward, complete=known, priced=False)
    # A price for a million tokens is as many millionths for each.
    cost = math.ceil(inward * settings.input_price + outward * settings.output_price)
    return Usage(1, inward, outward, cost=min(cost, _MOST_TOLD))
