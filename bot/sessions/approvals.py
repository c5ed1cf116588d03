"""Durable questions to people: what one is bound to, and what became of it.

Times are milliseconds since the epoch on the store's clock.
"""

from dataclasses import dataclass
from enum import StrEnum

from bot.sessions.json import JsonObject
from policy.labels import Label


class ApprovalState(StrEnum):
    """Where a question to people is; only `APPROVED` may be used, once."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    USED = "used"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Approval:
    """A durable question, bound to exact arguments, label and principal.

    `binding` is the digest of (tool, arguments, taint, principal, generation); `call` the id of the tool
    call it is for. `question` is what people are shown. `expires_at` is on the store's clock. `alone` tells that a
    background session asks: its asker, who is `principal`, and nobody else.
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
    question: JsonObject
    rules: tuple[str, ...]
    expires_at: int
    state: ApprovalState = ApprovalState.PENDING
    resolved_by: str = ""
    alone: bool = False

    @property
    def asked_in(self) -> str:
        """The question it was asked in: one for all calls of a model step, whose ids begin with the question's."""
        return self.id.partition("-")[0]
