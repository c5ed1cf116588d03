"""Questions to people: approvals, where copies of one stand, and strangers who ask to be let in.

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from bot.core.json_values import JsonObject
from bot.sessions.background.delegation import ResultField
from bot.sessions.messages import Endorsed
from policy.labels import Label


class ApprovalState(StrEnum):
    """Where a question to people is; only `APPROVED` may be used, once, and only of a call's approval.

    `REPLIED` is what a question of an agent becomes: it lets no call run. `SUPERSEDED` is what a message in the mode
    INTERRUPT took the place of.
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
    """What is asked: whether a call may run, or what an agent wants to know of its asker."""

    APPROVAL = "approval"
    QUESTION = "question"


WORDS: Final = "question"
"""The name under which an agent's question has its words, among the arguments of the call that asks."""

AnswerValue: TypeAlias = bool | int | float | str
"""What an agent's question can be answered with."""


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """What a person answered an agent's question with.

    `label` is the inbound label of the `address` where they typed it, an address' text. `via` is the identity of the
    update that brought it, by which one that is told again is known.
    """

    value: AnswerValue
    label: Label
    address: str
    via: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """What people are shown of a call that waits for them: exactly these arguments, and the `rules` that ask.

    `withheld` tells that it does not show what the call refers to: whatever is answered, that is not approved.
    `interrupted` is the sentence about a call whose outcome nobody knows, empty for any other. `authors` are the other
    people whose words the call may follow, `endorsed` the bounded answers that it may depend on. `kind` is what is
    asked; for an agent's question, `arguments` are those of the call that asks.
    """

    tool: str
    arguments: JsonObject
    rules: tuple[str, ...] = ()
    withheld: bool = False
    interrupted: str = ""
    authors: tuple[str, ...] = ()
    endorsed: tuple[Endorsed, ...] = ()
    kind: QuestionKind = QuestionKind.APPROVAL


@dataclass(frozen=True, slots=True)
class Approval:
    """A durable question, bound to exact arguments, label and principal.

    `binding` is the digest of (tool, arguments, taint, principal, generation); `call` the id of the tool
    call it is for. `question` is what people are shown. `expires_at` is on the store's clock. `alone` tells that a
    background session asks: its asker, who is `principal`, and nobody else.

    An agent's question is one, too, of the kind `QUESTION`: `principal` alone answers it, `wanted` is the field that
    bounds the answer, None for any text, and `default` what counts if nobody answers. `places` are the addresses where
    it was asked. `resolved_at` is when it was answered.
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
    state: ApprovalState = ApprovalState.PENDING
    resolved_by: str = ""
    alone: bool = False
    wanted: ResultField | None = None
    default: AnswerValue | None = None
    places: tuple[str, ...] = ()
    answer: QuestionAnswer | None = None
    resolved_at: int = 0

    @property
    def is_question(self) -> bool:
        """Whether an agent asks its asker something, and no call waits to be approved."""
        return self.question.kind is QuestionKind.QUESTION

    @property
    def words(self) -> str:
        """The words of an agent's question."""
        return str(self.question.arguments[WORDS])

    @property
    def asked_in(self) -> str:
        """The question it was asked in: one for all calls of a model step, whose ids begin with the question's."""
        return asked_in(self.id)


def asked_in(approval: str) -> str:
    """Return the question that the approval of an id was asked in."""
    return approval.partition("-")[0]


@dataclass(frozen=True, slots=True)
class QuestionCopy:
    """One copy: the session, the id the question has, and the key of the delivery that asked it there.

    A notice that something is held has the item's id, and the session `holder` that holds it; a question has none.
    """

    sid: str
    asked: str
    key: str
    holder: str = ""


CODE_LIFE_MS: Final = 3_600_000
"""How long a code counts, and how long wrong ones are remembered."""


MOST_REQUESTS: Final = 3
"""How many may wait for an answer at a time in one workspace of a channel."""


MOST_WRONG_CODES: Final = 5
"""How many wrong codes a person may type within an hour; then no code of theirs is looked at until it has passed."""


DENIED_MS: Final = 86_400_000
"""How long somebody who was refused is not given another code."""


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """A stranger who waits for an answer; times in milliseconds on the store's clock."""

    account: str
    channel: str
    workspace: str
    asked_at: int
    expires_at: int
    digest: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A pairing that a change answers. It must still wait then; `keep` is how long that account may not ask again."""

    account: str
    digest: str
    keep: int = 0
