"""Plain replies to agents' questions: a message that fits an open question in its chat answers it.

Any other text is an ordinary message; then the chat is told once how to answer. A text that may fit two questions
answers neither of them, as its meaning is unclear.
"""

from dataclasses import dataclass
from typing import Final

from bot.access.authorize import Caller
from bot.commands.command import Reply
from bot.core.errors import NotFoundError
from bot.delivery import question_prompts
from bot.operations.question_answers import AskedQuestion, QuestionAnswers, Replier
from bot.sessions.approvals import AnswerValue
from bot.sessions.ports.accounts import CountStore
from channels.messages import How, Inbound
from policy.labels import join_all

NOT_COUNTED: Final = "The question was answered or is over, so this did not count."
HOW: Final = "This waits as a message. To answer the question, use `/answer {id} TEXT`."
HOW_OF_SEVERAL: Final = "This waits as a message. Several questions wait: `/questions` tells how to answer them."

_TOLD_MS: Final = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class QuestionReply:
    """The effect of a message on the questions in its chat.

    `taken` tells that it was an answer and not a message. `say` is the notice for its sender, None for none.
    """

    taken: bool = False
    say: Reply | None = None


class QuestionReplies:
    """Takes plain replies as answers. `counts` notes which chats were told how to answer."""

    def __init__(self, answers: QuestionAnswers, counts: CountStore) -> None:
        self._answers = answers
        self._counts = counts

    async def taken(self, inbound: Inbound, caller: Caller) -> QuestionReply:
        """Answer a question with a message, if it is a plain reply that fits the question in its chat.

        Raises StoreError.
        """
        here = [
            one
            for one in await self._answers.of(caller.principal)
            if question_prompts.stands(one.question, inbound.address, private=inbound.private)
        ]
        if any(one.question.answer is not None and one.question.answer.via == inbound.identity for one in here):
            # A redelivery.
            return QuestionReply(taken=True)
        waiting = [one for one in here if one.open]
        if not waiting:
            return QuestionReply()
        fits = _fits(waiting, inbound)
        if len(fits) == 1:
            return await self._given(fits[0], inbound, caller)
        return QuestionReply(say=await self._hint(waiting, inbound))

    async def _given(self, fit: tuple[AskedQuestion, AnswerValue], inbound: Inbound, caller: Caller) -> QuestionReply:
        asked, value = fit
        by = Replier(caller.principal, caller.role, inbound.address, not inbound.private, inbound.identity)
        try:
            _, counts = await self._answers.give(asked, value, by)
        except NotFoundError:
            counts = False
        return QuestionReply(taken=True, say=None if counts else Reply(NOT_COUNTED, asked.label))

    async def _hint(self, waiting: list[AskedQuestion], inbound: Inbound) -> Reply | None:
        """Return how to answer, once for all questions that wait at a place."""
        names = sorted(one.question.id for one in waiting)
        counted = await self._counts.count(f"asked/{inbound.address}/{'/'.join(names)}", _TOLD_MS)
        text = HOW.format(id=names[0]) if len(names) == 1 else HOW_OF_SEVERAL
        return Reply(text, join_all(one.label for one in waiting)) if counted == 1 else None


def _fits(waiting: list[AskedQuestion], inbound: Inbound) -> list[tuple[AskedQuestion, AnswerValue]]:
    """Return the questions that a message answers; only the sender's own typed words can be an answer, all of them."""
    plain = inbound.authored and inbound.how is How.TEXT and not (inbound.quoted or inbound.files or inbound.bot)
    plain = plain and inbound.part is None
    found = list[tuple[AskedQuestion, AnswerValue]]()
    for one in waiting if plain else ():
        try:
            found.append((one, one.value(inbound.text)))
        except ValueError:
            continue
    return found
