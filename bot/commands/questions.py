"""Commands that list and answer agents' questions to their user.

A person finds their questions at any address that may know of them; other people find them nowhere. A question that the
caller or a reader at this address may not know of is answered like one that does not exist (law `no_read_up`).
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.commands.inbox.waiting import WaitingEntry
from bot.core.errors import NotFoundError
from bot.delivery import time_left
from bot.operations.question_answers import AskedQuestion, QuestionAnswers, Replier, fitting
from bot.sessions.approvals import Approval, ApprovalState
from policy.labels import join_all

NOTHING: Final = "No question waits for you."
NOT_SHOWN: Final = "It may not be shown here."
ANSWERED: Final = "Answered {id}."
TOO_LATE: Final = "Its time is over."

_OVER: Final = MappingProxyType(
    {
        ApprovalState.REPLIED: "It was answered already.",
        ApprovalState.DENIED: "You declined to answer it.",
        ApprovalState.CANCELLED: "It was cancelled.",
        ApprovalState.SUPERSEDED: "A later message took its place.",
    }
)


@dataclass(frozen=True, slots=True)
class QuestionCommands:
    """List and answer the questions of agents."""

    answers: QuestionAnswers

    async def questions(self, request: CommandRequest, argument: str) -> Reply:
        """List the open questions to the caller, or one of them."""
        found = tuple(one for one in await self._readable(request) if one.open)
        if argument:
            found = (_named(found, argument),)
        if not found:
            return Reply(NOTHING)
        lines = [await self._line(request, one) for one in found]
        return Reply("\n".join(lines), join_all(one.label for one in found))

    async def waiting(self, request: CommandRequest) -> tuple[WaitingEntry, ...]:
        """Return the open questions to the caller."""
        return tuple(
            [
                WaitingEntry(one.question.asked_at, await self._line(request, one), one.label)
                for one in await self._readable(request)
                if one.open
            ]
        )

    async def answer(self, request: CommandRequest, argument: str) -> Reply:
        """Answer a question, once."""
        name, *words = argument.split(maxsplit=1) or [""]
        if not name:
            raise UsageError("")
        asked = _named(await self._readable(request), name)
        if not asked.open:
            return Reply(_over(asked.question), asked.label)
        try:
            value = asked.value(words[0] if words else "")
        except ValueError:
            wrong = CommandError(f"this takes {fitting(asked)}", next_step=f"write `/answer {asked.question.id} TEXT`")
            return Reply.refusing(wrong, asked.label)
        by = Replier(request.caller.principal, request.caller.role, request.address, await request.in_shared_chat())
        try:
            question, counts = await self.answers.give(asked, value, by)
        except NotFoundError:
            return Reply(TOO_LATE, asked.label)
        return Reply(ANSWERED.format(id=question.id) if counts else _over(question), asked.label)

    async def _readable(self, request: CommandRequest) -> tuple[AskedQuestion, ...]:
        return await self.answers.readable(request.caller.principal, (await request.standing(None)).reader)

    async def _line(self, request: CommandRequest, asked: AskedQuestion) -> str:
        """Return the line about a question, with the model's words only where they may be sent like any output."""
        question, text = asked.question, self.answers.spoken(asked, await request.standing(asked.state))
        since = time_left.since(question, request.now)
        place = "here" if question.sid == request.sid else f"in session {question.sid}"
        return (
            f"{question.id} asked {place}{since}, {time_left.left(question, request.now)}\n"
            f"{NOT_SHOWN if text is None else text}\n"
            f"Answer with {fitting(asked)}: `/answer {question.id} TEXT`"
        )


def _named(found: tuple[AskedQuestion, ...], argument: str) -> AskedQuestion:
    """Return the question of an id. Raises NotFoundError: there is none that this caller may know of here."""
    name = argument.strip().lower()
    for one in found:
        if one.question.id == name:
            return one
    raise NotFoundError


def _over(question: Approval) -> str:
    return _OVER.get(question.state, TOO_LATE)
