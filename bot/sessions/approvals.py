"""Questions to people: approvals, the copies of a question in chats, and pairing requests of strangers.

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from bot.core.clock import LAST_MS
from bot.core.json_values import JsonObject
from bot.sessions.background.delegation import ResultField
from bot.sessions.consents.grants import Grant, GrantScope
from bot.sessions.consents.released_calls import CallRelease
from bot.sessions.messages import Endorsed
from policy.labels import Label


class ApprovalState(StrEnum):
    """The state of a question to people; only `APPROVED` may be used, once, and only for the approval of a call.

    A question of an agent becomes `REPLIED`, which lets no call run. An approval becomes `SUPERSEDED` when a message in
    the mode INTERRUPT takes its place.
    """

    PENDING = "pending"
    APPROVED = "approved"
    REPLIED = "replied"
    DENIED = "denied"
    EXPIRED = "expired"
    USED = "used"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class QuestionKind(StrEnum):
    """The kind of a question: whether a call may run, or an agent's own question to its asker."""

    APPROVAL = "approval"
    QUESTION = "question"


WORDS: Final = "question"
"""The name, among the arguments of the asking call, of the words of an agent's question."""

FOR_EVER: Final = LAST_MS
"""The expiry time of a question that waits for ever."""

_REMINDED_MS: Final = 120_000
"""The least time, in milliseconds, that a reminder leaves for the answer."""

AnswerValue: TypeAlias = bool | int | float | str
"""The possible answers to an agent's question."""


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """A person's answer to an agent's question.

    Args:
        value: The answer.
        label: The inbound label of `address`.
        address: The address where they typed it, as text.
        via: The id of the platform's update that brought it, by which a redelivery is recognised.
    """

    value: AnswerValue
    label: Label
    address: str
    via: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """The facts that people are shown about a call that waits for them.

    Args:
        tool: The tool.
        arguments: The exact arguments; for an agent's question, those of the asking call.
        rules: The rules that ask.
        withheld: Whether the text behind a reference is not shown; then no answer approves it.
        missing: Whether that is so as a held list has no entry at a place that the call takes.
        interrupted: A sentence about a call with an unknown outcome, empty for any other.
        authors: The other people whose words the call may follow.
        endorsed: The bounded answers that it may depend on.
        steers: The number of values in each role that steer the call, in words; empty where none does.
        vouches: The held values that steer the call, each with its role, as an approval vouches for them.
        kind: The kind of question.
        scope: The scope of a grant that may be given with the answer, None for an answer that counts once.
        release: The sink that the call would be released to, None where nothing is to be released.
    """

    tool: str
    arguments: JsonObject
    rules: tuple[str, ...] = ()
    withheld: bool = False
    missing: bool = False
    interrupted: str = ""
    authors: tuple[str, ...] = ()
    endorsed: tuple[Endorsed, ...] = ()
    steers: str = ""
    vouches: tuple[str, ...] = ()
    kind: QuestionKind = QuestionKind.APPROVAL
    scope: GrantScope | None = None
    release: CallRelease | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """A durable question, bound to exact arguments, label and principal. Times are ms on the store's clock.

    An agent's question is one, too, of the kind `QUESTION`.

    Args:
        id: Its id.
        sid: The session.
        generation: The generation.
        turn: The turn.
        call: The id of the tool call it is for.
        tool: The tool.
        binding: The digest of (tool, arguments, taint, principal, generation), and of the sink of a release.
        label: The label of the shown facts.
        principal: The asker. The only person who may answer an agent's question.
        question: The facts that people are shown.
        rules: The rules that ask.
        expires_at: When it expires, `FOR_EVER` for never.
        asked_at: When it was asked, 0 if an older version of this program asked.
        state: Its state.
        resolved_by: The principal who answered, empty for none.
        alone: Whether a background session asks: then only its asker may answer.
        wanted: The field that bounds the answer to an agent's question, None for any text.
        default: The answer to an agent's question if nobody answers in time.
        places: The addresses where it was asked.
        answer: The answer to an agent's question.
        resolved_at: When it was answered, 0 before.
        grant: The grant that was given with the answer, None for an answer that counts once.
    """

    id: str
    sid: str
    generation: int
    turn: str
    call: str
    tool: str
    binding: str
    label: Label
    principal: str
    question: ApprovalQuestion
    rules: tuple[str, ...]
    expires_at: int
    asked_at: int = 0
    state: ApprovalState = ApprovalState.PENDING
    resolved_by: str = ""
    alone: bool = False
    wanted: ResultField | None = None
    default: AnswerValue | None = None
    places: tuple[str, ...] = ()
    answer: QuestionAnswer | None = None
    resolved_at: int = 0
    grant: Grant | None = None

    @property
    def is_question(self) -> bool:
        """Whether it is an agent's question to its asker, and not the approval of a call."""
        return self.question.kind is QuestionKind.QUESTION

    @property
    def endless(self) -> bool:
        """Whether it waits until it is answered, or its turn ends."""
        return self.expires_at >= FOR_EVER

    @property
    def remind_at(self) -> int:
        """When to remind people of it: with a quarter of its time left, at least two minutes; 0 for never.

        A question of less than four minutes has no reminder, since it would follow right behind the question.
        """
        life = self.expires_at - self.asked_at
        if self.endless or not self.asked_at or life < 2 * _REMINDED_MS:
            return 0
        return self.expires_at - max(life // 4, _REMINDED_MS)

    @property
    def words(self) -> str:
        """The words of an agent's question."""
        return str(self.question.arguments[WORDS])

    @property
    def asked_in(self) -> str:
        """The question it was asked in: one for all calls of a model step, whose ids begin with the question's."""
        return asked_in(self.id)


def asked_in(approval: str) -> str:
    """Return the id of the question that an approval was asked in."""
    return approval.partition("-")[0]


@dataclass(frozen=True, slots=True)
class QuestionCopy:
    """One copy of a question or notice in a chat.

    Args:
        sid: The session.
        asked: The id of the question; for a notice about a held item, the item's id.
        key: The key of the delivery that brought it there.
        holder: The session that holds the item, empty for a question.
    """

    sid: str
    asked: str
    key: str
    holder: str = ""


CODE_LIFE_MS: Final = 3_600_000
"""For how many milliseconds a pairing code is valid, and wrong codes are remembered."""


MOST_REQUESTS: Final = 3
"""How many pairing requests may wait at a time in one workspace of a channel."""


MOST_WRONG_CODES: Final = 5
"""How many wrong codes a person may type within an hour; after that their codes are not checked until it has passed."""


DENIED_MS: Final = 86_400_000
"""For how many milliseconds a refused stranger gets no new code."""


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """A stranger who waits for an answer; times are milliseconds on the store's clock."""

    account: str
    channel: str
    workspace: str
    asked_at: int
    expires_at: int
    digest: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A pairing request that a change answers.

    It must still wait then; for `keep` milliseconds that account may not ask again.
    """

    account: str
    digest: str
    keep: int = 0
