"""What a crossing of the gate gives: the decision, with what follows from it."""

from dataclasses import dataclass

from bot.sessions.values import AuditRow, NewDelivery
from bot.standing import Call
from bot.tools.base import Arguments, Tool
from policy.decision import Decision
from policy.labels import PUBLIC, Label
from policy.request import Destination, Effect, Hook


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call with its decision.

    `label` is what its result will carry at least. `use` is the approval that its running spends, `approved`
    tells that one lifted it. `binding` is what an approval for it must be bound to. `accepted` holds tool and
    checked arguments, None when the call names nothing that could run.
    """

    call: Call
    decision: Decision
    binding: str
    label: Label = PUBLIC
    use: str | None = None
    accepted: tuple[Tool, Arguments] | None = None
    approved: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether it may simply run again after a crash."""
        return self.accepted is not None and self.accepted[0].repeatable

    @property
    def barrier(self) -> bool:
        """Whether it must run alone: whatever reaches others waits for the reads before it."""
        return self.accepted is None or self.accepted[0].effect in {Effect.SEND, Effect.WRITE}


@dataclass(frozen=True, slots=True)
class Response:
    """A result on its way into the context: the text and label to admit, what to deliver, the audit rows.

    `hook` is where `decision` was made: on the result itself or on something it wanted said.
    """

    hook: Hook
    decision: Decision
    text: str
    label: Label
    failed: bool
    deliver: tuple[NewDelivery, ...]
    audit: tuple[AuditRow, ...]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A text on its way out: `text` is what may be said, redacted where a rule asks for it."""

    decision: Decision
    text: str
    destination: Destination
