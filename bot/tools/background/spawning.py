"""`sessions_spawn`: let a background session do something and report back."""

import json
import re
from decimal import Decimal
from typing import Annotated, Final, Literal, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from bot.access import labelling, recipients
from bot.core.errors import RequestError
from bot.delegation import structured_result
from bot.sessions.background.delegation import Errand, FieldKind, ResultField
from bot.sessions.refs import EventsRef
from bot.tools.base import (
    Arguments,
    CallFacts,
    Content,
    Recipient,
    RefusedCallError,
    Result,
    ToolContext,
    ToolServices,
)
from bot.tools.message import recipient
from bot.tools.parameters import UP_TO, raised
from policy.document.model import Document
from policy.labels import PUBLIC
from policy.request import Effect

HELD: Final = "held"
"""The note on an answer that will be held, as it has more bits than may be endorsed."""

NO_LIST: Final = "there is no list of this name; your operator has not named one"

_FIELD: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")

_FieldT = TypeVar("_FieldT", bound=Arguments)


class SpawnLimits(Arguments):
    """How much a background session may take; more than configuration gives is cut to that."""

    minutes: int = Field(ge=1, le=24 * 60)


class BooleanField(Arguments):
    """Yes or no."""

    type: Literal["boolean"]


class NumberField(Arguments):
    """One of the numbers from `min` to `max`, in steps from `min` on."""

    type: Literal["number"]
    min: int | float
    max: int | float
    step: int | float = 1

    @model_validator(mode="after")
    def _countable(self) -> Self:
        return _countable(self, f"needs `min`, `max` and `step` of at most {structured_result.DIGITS} digits, in order")


class DateField(Arguments):
    """One of the days from `min` to `max`, by default of the whole calendar."""

    type: Literal["date"]
    min: str = structured_result.FIRST_DAY
    max: str = structured_result.LAST_DAY

    @model_validator(mode="after")
    def _countable(self) -> Self:
        return _countable(self, "needs `min` and `max` that are days such as 2026-11-22, in order")


class EnumField(Arguments):
    """One of these texts, which are known before anything is read."""

    type: Literal["enum"]
    values: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(min_length=1, max_length=32)


class ListedField(Arguments):
    """One of the texts that the operator's list of this name has."""

    type: Literal["listed"]
    list: str = Field(min_length=1, max_length=64)


def _named(name: str) -> str:
    """Return the name of a field; raises ValueError with the fault of any other."""
    if not _FIELD.fullmatch(name):
        raise ValueError("needs a name of small letters, digits and `_` that begins with a letter, at most 32")
    return name


Returns: TypeAlias = dict[
    Annotated[str, AfterValidator(_named), WithJsonSchema({"type": "string", "pattern": f"^{_FIELD.pattern}$"})],
    Annotated[BooleanField | NumberField | DateField | EnumField | ListedField, Field(discriminator="type")],
]


class SpawnArguments(Arguments):
    """Arguments of `sessions_spawn`."""

    task: Content = Field(min_length=1, max_length=40_000, description="its task, with all it needs to know")
    title: str = Field(default="", max_length=200)
    deliver_to: Recipient = Field(
        default="", max_length=128, description="a recipient who is told the result too, as `message` names them"
    )
    limits: SpawnLimits | None = None
    returns: Returns | None = Field(
        default=None, min_length=1, max_length=8, description="fields to answer with instead of a text"
    )
    up_to: str | None = Field(default=None, max_length=2048, description=UP_TO)


class SessionsSpawn:
    """Make a background session with a task; its result comes back as a message."""

    name = "sessions_spawn"
    description = "Let a background session do a task. Answers at once; the result comes later, as a message."
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = SpawnArguments

    def declare(self, arguments: SpawnArguments, context: ToolContext) -> CallFacts:
        """Declare the child as the sink: it may know everything that its principal may.

        Its result carries at least the label of its task. So a recipient who may not know that can never get it, and is
        a sink as well. It is consequential if the result goes to another recipient than the session's principal.
        """
        raises = raised(arguments.up_to, context)
        _ = bounded_by(arguments.returns, context.document)
        if not arguments.deliver_to:
            return CallFacts(clearance=context.caller.ceiling, once=True, raises=raises)
        to = recipient(context, arguments.deliver_to)
        others = not recipients.stays(context.document, context.caller, context.session.home, to)
        known = labelling.expected(context.document, to).clearance or PUBLIC
        clearance = context.caller.ceiling.meet(known)
        return CallFacts(clearance=clearance, consequential=others, tells=to, once=True, raises=raises)

    async def run(self, arguments: SpawnArguments, context: ToolContext, services: ToolServices) -> Result:
        """Have the child made; every refusal is one constant sentence."""
        minutes, to = 0 if arguments.limits is None else arguments.limits.minutes, arguments.deliver_to
        try:
            child = await services.spawn(
                Errand(
                    arguments.task,
                    arguments.title,
                    to,
                    minutes,
                    bounded_by(arguments.returns, context.document),
                    recipients.meaning(context.document, recipient(context, to)) if to else "",
                )
            )
        except RequestError as error:
            return Result(str(error), failed=True)
        told = {"run_id": child.run, "session_id": child.sid, "status": "accepted"}
        came = (EventsRef(1, 1, child.sid),)
        return Result(json.dumps({**told, "answer": HELD} if child.beyond else told), refs=came)


def _countable(field: _FieldT, wrong: str) -> _FieldT:
    """Return a field whose values can be counted; raises ValueError with the fault of any other."""
    try:
        structured_result.values(bound("", field))
    except (ValueError, ArithmeticError):
        raise ValueError(wrong) from None
    return field


def bounded_by(returns: Returns | None, document: Document) -> tuple[ResultField, ...]:
    """Return the fields of a structured result, none for a text.

    Raises RefusedCallError: the policy has no such list.
    """
    return tuple(_field(name, field, document) for name, field in ({} if returns is None else returns).items())


def _field(name: str, field: Arguments, document: Document) -> ResultField:
    if not isinstance(field, ListedField):
        return bound(name, field)
    if field.list not in document.lists:
        raise RefusedCallError(NO_LIST)
    return ResultField(name, FieldKind.ENUM, document.lists[field.list])


def bound(name: str, field: Arguments) -> ResultField:
    """Return a field of a structured result as sessions keep it."""
    match field:
        case NumberField():
            return ResultField(
                name, FieldKind.NUMBER, (), *(_decimal(one) for one in (field.min, field.max, field.step))
            )
        case DateField():
            return ResultField(name, FieldKind.DATE, (), field.min, field.max)
        case EnumField():
            return ResultField(name, FieldKind.ENUM, tuple(field.values))
        case _:
            return ResultField(name, FieldKind.BOOLEAN)


def _decimal(number: float) -> str:
    return f"{Decimal(repr(number)):f}"
