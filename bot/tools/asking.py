"""`ask_user`: ask the turn's asker, in the middle of the turn, and go on with their answer.

The tool itself sends no question: the turn waits in the store without a worker (`bot.delivery.asker_questions`), and
the call runs once the question is over. Its result then has the label of the place where the answer was typed.
"""

import json
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from bot.delegation import structured_result
from bot.sessions.approvals import AnswerValue, Approval, ApprovalState
from bot.sessions.background.delegation import ResultField
from bot.tools.background.spawning import BooleanField, DateField, EnumField, NumberField, bound
from bot.tools.base import Arguments, CallFacts, Inquiry, Result, ToolContext, ToolServices
from policy.labels import PUBLIC
from policy.request import Effect

ASK: Final = "ask_user"

MOST_BUTTONS: Final = 8
"""How many choices of a question become buttons."""

LATE: Final = "nobody answered in time"
DECLINED: Final = "the user declined to answer"
CANCELLED: Final = "the question was cancelled"
ASKED: Final = "the question is this turn's answer; the user's next message continues"

_NAME: Final = "answer"
_ENDS: Final = "`end_turn` takes neither `timeout_minutes` nor `default`: nothing waits for the answer"
_LONGEST: Final = 2_000


class TextField(Arguments):
    """Any text."""

    type: Literal["text"]


AnswerField: TypeAlias = Annotated[
    TextField | BooleanField | NumberField | DateField | EnumField, Field(discriminator="type")
]


class AskArguments(Arguments):
    """Arguments of `ask_user`."""

    question: str = Field(min_length=1, max_length=_LONGEST, description="the question, in one or two sentences")
    wanted: AnswerField | None = Field(
        default=None, alias="schema", description="the form of an answer; any text by default"
    )
    timeout_minutes: int | None = Field(default=None, ge=1, le=7 * 24 * 60)
    default: AnswerValue | None = Field(default=None, description="the answer that counts if nobody answers in time")
    end_turn: bool = Field(default=False, description="end the turn with the question instead of waiting")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.end_turn and not (self.timeout_minutes is None and self.default is None):
            raise ValueError(_ENDS)
        if self.default is not None:
            _default(_field(self), self.default)
        return self


class AskUser:
    """Ask the turn's asker a question."""

    name = ASK
    description = (
        "Ask your user a question and wait for the answer. Ask only where you cannot find the answer yourself."
    )
    effect = Effect.NONE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = AskArguments

    async def inquiry(self, arguments: AskArguments, context: ToolContext) -> Inquiry:
        """Return the question for the asker."""
        field, default = _field(arguments), arguments.default
        return Inquiry(
            arguments.question,
            field,
            arguments.timeout_minutes or 0,
            None if default is None else _default(field, default),
            arguments.end_turn,
        )

    def declare(self, arguments: AskArguments, context: ToolContext) -> CallFacts:
        """Declare the label of the answer, once there is one: it is decided on before it is read."""
        answer = None if context.asked is None else context.asked.answer
        return CallFacts(once=True) if answer is None else CallFacts(result=answer.label, once=True)

    async def foresee(self, arguments: AskArguments, context: ToolContext) -> list[str]:
        """Tell that the answer, and whether the question may be asked, are unknown beforehand."""
        return ["where the user may be asked", "the label of the place where they answer"]

    async def run(self, arguments: AskArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the answer, or why there is none."""
        if context.asked is None:
            return Result(context.unasked, failed=True) if context.unasked else Result(json.dumps({"status": ASKED}))
        answer = context.asked.answer
        return Result(json.dumps(_told(context.asked), ensure_ascii=False), PUBLIC if answer is None else answer.label)


def _told(question: Approval) -> dict[str, AnswerValue]:
    if question.answer is not None:
        return {"status": "answered", "answer": question.answer.value}
    match question.state:
        case ApprovalState.DENIED:
            return {"status": DECLINED}
        case ApprovalState.CANCELLED | ApprovalState.SUPERSEDED:
            return {"status": CANCELLED}
        case _:
            return {"status": LATE} if question.default is None else {"status": LATE, "default": question.default}


def _field(arguments: AskArguments) -> ResultField | None:
    wanted = arguments.wanted
    return None if wanted is None or isinstance(wanted, TextField) else bound(_NAME, wanted)


def _default(field: ResultField | None, value: AnswerValue) -> AnswerValue:
    """Return a default as the field writes it; raises ValueError: it is no answer to the question."""
    try:
        if field is not None:
            return structured_result.fitting(field, value)
    except ValueError:
        raise ValueError("needs a `default` that fits `schema`") from None
    if not isinstance(value, str):
        raise ValueError("needs a `default` that is a text")  # noqa: TRY004 - pydantic takes this one as wrong input
    return value
