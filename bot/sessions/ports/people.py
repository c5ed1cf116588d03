"""The ports for what people decide: approvals, access, the policy in force, and the audit of all that.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not
answer raises StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from bot.sessions.approvals import Answered, Approval, ApprovalState, PairingRequest, QuestionAnswer
from bot.sessions.audit import AuditRecord, AuditRow, PolicyHead
from bot.sessions.models import (
    SessionState,
)
from policy.document.overrides import AccessChange, Overrides


class ApprovalStore(Protocol):
    """Questions to people, answered once and found wherever they wait."""

    async def resolve(
        self,
        sid: str,
        approvals: tuple[str, ...],
        state: ApprovalState,
        *,
        actor: str,
        audit: tuple[AuditRow, ...],
        answer: QuestionAnswer | None = None,
    ) -> tuple[Approval, ...]:
        """Answer pending approvals or questions once, all in one step, and mark the session ready when none is left.

        `answer` is that of a question, whose state is REPLIED then; an approval is never REPLIED, and a question
        never APPROVED.

        Returns them as they stand: the same answer by the same actor again is no error, another answer finds the
        first in force. Raises NotFoundError: one of them does not exist, or is no longer pending by time.
        """
        ...

    async def of(self, sid: str) -> tuple[Approval, ...]:
        """Return the approvals of this generation; one past its time reads as EXPIRED."""
        ...

    async def waiting(self) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the pending approvals of all sessions, each with its session's record."""
        ...

    async def answered(self, principal: str, name: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the approval of an id, or those of a question, which a principal answered within an hour.

        Also where somebody else was the first, or where they answered one of several. They are of this generation, and
        each comes with its session's record, which is not older than it.
        """
        ...

    async def questions(self, principal: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return an agent's questions to a person, each with its session's record, the next to end first.

        They are those that are open, and those that were until an hour ago. Where nothing is asked it costs one round
        trip.
        """
        ...


class PolicyStore(Protocol):
    """Which policy is in force, for all processes of one store."""

    @property
    def policy_head(self) -> PolicyHead | None:
        """What this process read last of it, None for none.

        Read along with whatever has to know: waiting for sessions, a claim, taking or committing what is to be said.
        """
        ...

    async def read_policy(self) -> PolicyHead | None:
        """Read it now."""
        ...

    async def put_policy(
        self, digest: str, process: str, audit: tuple[AuditRow, ...], *, only_if_none: bool = False
    ) -> PolicyHead:
        """Put a policy in force and append the rows that tell of it to the chain `audit`, in one step.

        `process` tells people who did it. With `only_if_none` nothing changes if one is in force. Returns what is in
        force then.
        """
        ...


class AccessStore(Protocol):
    """Who may what and which chat is what, as people changed it while Lockgate runs; and strangers who ask."""

    async def overrides(self) -> tuple[int, Overrides]:
        """Read what was changed, and how many changes there were; the policy head tells that number along."""
        ...

    async def override(
        self, change: AccessChange, known: int, audit: tuple[AuditRow, ...], answered: Answered | None = None
    ) -> int | None:
        """Change something and append the rows that tell of it to the chain `audit`, in one step.

        `known` is the number of changes it was made from. Returns the new one, None if there were others meanwhile and
        nothing changed. With `answered` that pairing is closed. Raises NotFoundError: it does not wait any more.
        """
        ...

    async def ask_pairing(self, account: str, channel: str, workspace: str, digest: str) -> bool:
        """Keep a stranger's question under the hash of a code, and say whether it was kept.

        It is not while the same account waits or was refused lately, or as many wait there as may.
        """
        ...

    async def try_pairing(self, principal: str, digest: str) -> str | None:
        """Return the account that was given a code, None for a wrong one, which counts against the principal.

        Raises BusyError: there were too many wrong ones.
        """
        ...

    async def pairings(self) -> tuple[PairingRequest, ...]:
        """Return the strangers who wait for an answer, the first who asked first."""
        ...


class AuditStore(Protocol):
    """Audit chains: one per session in the session's slot, one named `audit` for decisions outside any."""

    async def append(self, rows: tuple[AuditRow, ...]) -> None:
        """Append rows to the chain for decisions outside a session."""
        ...

    async def append_once(self, row: AuditRow, op: str) -> None:
        """Append a row there, unless one was appended under `op` within the last ten minutes, by any process."""
        ...

    async def records(self, chain: str, *, after: int = 0, limit: int = 1000) -> tuple[AuditRecord, ...]:
        """Return records with n > `after` of a session's chain or of the chain named `audit`."""
        ...

    async def head(self, chain: str) -> tuple[int, str]:
        """Return (n, hash) the store believes to be the last record; (0, "") for an empty chain."""
        ...

    def moved(self) -> Mapping[str, tuple[int, str]]:
        """Return the heads that this process wrote or met since they were last `anchored`."""
        ...

    def anchored(self, heads: Mapping[str, tuple[int, str]]) -> None:
        """Note that heads are kept outside the store; one that moved on meanwhile is still to be."""
        ...

    def heads(self, *, idly: bool = False) -> AsyncIterator[tuple[str, tuple[int, str]]]:
        """Walk the heads of all chains that are not empty, in no order; `idly` so that nobody waits for it."""
        ...
