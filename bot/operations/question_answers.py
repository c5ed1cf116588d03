"""Answers to agents' questions: whose they are, which values fit, and how the one that counts is given.

Commands, buttons and plain replies all end here. The answer is labelled by the address where it was typed, as a message
would be (law `labels_are_never_parsed_from_content`); whether it enters the context is decided when the turn goes on.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bot.access import labelling
from bot.access.approvals import may_reply
from bot.access.decision_context import DecisionContext
from bot.core.errors import NotFoundError
from bot.delegation import structured_result
from bot.delivery import question_prompts
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON
from bot.sessions.approvals import AnswerValue, Approval, ApprovalState, QuestionAnswer
from bot.sessions.audit import AuditRow
from bot.sessions.models import SessionState
from bot.sessions.ports.people import ApprovalStore
from channels.messages import Address, Button
from policy.labels import Label
from policy.request import Role

LONGEST: Final = 4_000
"""Characters of an answer that is any text."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """An agent's question with the record of its session."""

    state: SessionState
    question: Approval

    @property
    def open(self) -> bool:
        """Whether it can still be answered."""
        return self.question.state is ApprovalState.PENDING

    @property
    def label(self) -> Label:
        """The label of facts about it."""
        return self.question.label.join(self.state.visibility)

    def value(self, words: str) -> AnswerValue:
        """Return the answer in a person's words; raises ValueError: they are not an answer to this question."""
        if self.question.wanted is not None:
            return structured_result.typed(self.question.wanted, words)
        if not words.strip() or len(words) > LONGEST:
            raise ValueError
        return words.strip()

    def given(self, value: AnswerValue) -> AnswerValue:
        """Return the answer in a program's value; raises ValueError: it is not an answer to this question."""
        if isinstance(value, str):
            return self.value(value)
        if self.question.wanted is None:
            raise ValueError
        return structured_result.fitting(self.question.wanted, value)


@dataclass(frozen=True, slots=True)
class Replier:
    """The person or program that answers: a principal in a role, at an address.

    `via` is the identity of the update, empty for none.
    """

    principal: str
    role: Role
    address: Address
    shared: bool
    via: str = ""


class QuestionAnswers:
    """Finds agents' questions, and answers them once. `close` edits the copies of a session's questions."""

    def __init__(self, asked: ApprovalStore, gate: Gate, close: Callable[[str], Awaitable[None]]) -> None:
        self._asked = asked
        self._gate = gate
        self._close = close

    async def of(self, principal: str) -> tuple[AskedQuestion, ...]:
        """Return the questions to a person that are open, or were until an hour ago. Raises StoreError."""
        found = (AskedQuestion(state, question) for state, question in await self._asked.questions(principal))
        return tuple(one for one in found if may_reply(one.question, principal))

    async def readable(self, principal: str, reader: Label) -> tuple[AskedQuestion, ...]:
        """Return those of them that a reader may know of (law `no_read_up`). Raises StoreError."""
        return tuple(one for one in await self.of(principal) if one.label.flows_to(reader))

    def spoken(self, asked: AskedQuestion, standing: DecisionContext, *, marked: bool = True) -> str | None:
        """Return the model's words where they may be sent like any output, None where they may not.

        Choices are the model's words, too, and cannot be replaced. `standing` is the reader's decision context, about
        the session of the question. With `marked` each line is behind a mark, as people read it; a program has the
        words in a field of their own.
        """
        wanted, default = asked.question.wanted, asked.question.default
        choices = (*(() if wanted is None else wanted.members), *(() if default is None else (str(default),)))
        buttons = tuple(Button(one, "") for one in choices)
        words = told(asked) if marked else asked.question.words
        spoken = self._gate.output.speak(standing, standing.destination, words, buttons=buttons)
        return spoken.text if spoken.decision.verdict in MAY_GO_ON else None

    async def give(self, asked: AskedQuestion, value: AnswerValue, by: Replier) -> tuple[Approval, bool]:
        """Answer a question; return it as it stands, and whether this answer is the one that counts.

        Raises:
            NotFoundError: its time is over, or it is not theirs.
            StoreError: the store cannot be used.
        """
        question = asked.question
        if not may_reply(question, by.principal):
            raise NotFoundError
        label = labelling.inbound(self._gate.document, by.address, by.role, authored=True, shared=by.shared)
        answer = QuestionAnswer(value, label, str(by.address), by.via)
        row = AuditRow(
            "question",
            by.principal,
            {"question": question.id, "tool": question.tool, "address": str(by.address), "label": str(label)},
        )
        (stands,) = await self._asked.resolve(
            question.sid, (question.id,), ApprovalState.REPLIED, actor=by.principal, audit=(row,), answer=answer
        )
        await self._close(question.sid)
        return stands, stands.answer == answer


def fitting(asked: AskedQuestion) -> str:
    """Return in words for people the possible answers to a question."""
    wanted = asked.question.wanted
    return "any text" if wanted is None else structured_result.described(wanted)


def told(asked: AskedQuestion) -> str:
    """Return the model's words of a question, each line behind a mark."""
    return "\n".join(question_prompts.quoted(asked.question))
