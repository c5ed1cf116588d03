"""The ports for people's decisions: approvals, access, the policy in force, and the audit of all that.

Every method that changes something is one atomic, idempotent script (laws `lost_reply_never_duplicates`,
`stale_fence_writes_nothing`). Foreign exceptions never leave an implementation: a store that does not answer raises
StoreGoneError, one that refuses StoreRefusedError, records of a newer version SchemaError.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

from bot.core.errors import StoreError
from bot.sessions.approvals import Answered, Approval, ApprovalState, PairingRequest, QuestionAnswer
from bot.sessions.audit import AuditRecord, AuditRow, PolicyHead
from bot.sessions.installation.keys import InstallationKeys
from bot.sessions.models import (
    SessionState,
)
from policy.document.overrides import AccessChange, Overrides


class ApprovalStore(Protocol):
    """Questions to people, answered once and found wherever they wait."""

    async def resolve(  # noqa: PLR0913 - who answers what, and all that the answer gives
        self,
        sid: str,
        approvals: tuple[str, ...],
        state: ApprovalState,
        *,
        actor: str,
        audit: tuple[AuditRow, ...],
        answer: QuestionAnswer | None = None,
        granted: tuple[Approval, ...] = (),
    ) -> tuple[Approval, ...]:
        """Answer pending approvals or questions once, all in one step, and mark the session ready when none is left.

        The same answer by the same actor again is not an error; another answer finds the first in force.

        Args:
            sid: The session.
            approvals: Their ids.
            state: The new state. An approval never becomes REPLIED, and a question never APPROVED.
            actor: The principal who answers.
            audit: Audit rows to append in the same step.
            answer: The answer to a question, whose state is then REPLIED.
            granted: Those of the approvals that are answered for further calls, each with its grant.

        Returns:
            The approvals as they stand.

        Raises:
            NotFoundError: One of them does not exist, or has expired.
        """
        ...

    async def of(self, sid: str) -> tuple[Approval, ...]:
        """Return the approvals of this generation; an expired one reads as EXPIRED."""
        ...

    async def waiting(self) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the pending approvals of all sessions, each with its session's record."""
        ...

    async def answered(self, principal: str, name: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the approval with an id, or those of a question, that a principal answered within the last hour.

        This includes cases where another person answered first, and where the principal answered one of several. They
        are of this generation; each comes with its session's record, which is not older than the approval.
        """
        ...

    async def granted(self, principal: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return the approvals with a grant that covers further calls, given by a principal or for their calls.

        They are of this generation, the newest last; each comes with its session's record.
        """
        ...

    async def revoke(self, sid: str, name: str, *, actor: str, audit: tuple[AuditRow, ...]) -> Approval:
        """End a grant by the id of its approval; one that ended before stays as it is, and writes no row.

        Raises NotFoundError: there is none in this generation.
        """
        ...

    async def questions(self, principal: str) -> tuple[tuple[SessionState, Approval], ...]:
        """Return an agent's questions to a person, each with its session's record, the next to expire first.

        Open questions are included, and those that were open until an hour ago. Where nothing is asked it costs one
        round trip.
        """
        ...


class PolicyStore(Protocol):
    """Which policy is in force, for all processes of one store."""

    @property
    def policy_head(self) -> PolicyHead | None:
        """The policy head that this process read last, None for none.

        It is read along with every call that needs it: waiting for sessions, a claim, taking deliveries, committing.
        """
        ...

    async def read_policy(self) -> PolicyHead | None:
        """Read the policy head now."""
        ...

    async def put_policy(
        self, digest: str, process: str, audit: tuple[AuditRow, ...], *, only_if_none: bool = False
    ) -> PolicyHead:
        """Put a policy in force and append its rows to the chain `audit`, in one step.

        `process` tells people which process did it. With `only_if_none` nothing changes if a policy is in force.
        Returns the policy in force afterwards.
        """
        ...


class InstallationKeyStore(Protocol):
    """The names of the keys that all processes of the installation have."""

    async def read(self) -> InstallationKeys | None:
        """Return them, None before the first process. Raises StoreError."""
        ...

    async def put(self, after: InstallationKeys) -> bool:
        """Put others in the place of those that were read last; say whether these were still there.

        Raises StoreError.
        """
        ...

    def agree_first(self, agree: Callable[[], Awaitable[None]]) -> None:
        """Have `agree` called once, before this process appends its first row to a chain; its errors prevent that."""
        ...

    def bar(self, error: StoreError | None) -> None:
        """Let this process append no row to any audit chain: each try raises the error. None lets it again."""
        ...


class AccessStore(Protocol):
    """People's changes to principals and chats while Lockgate runs, and pairing requests of strangers."""

    async def overrides(self) -> tuple[int, Overrides]:
        """Read the changes and their number; the policy head carries the same number."""
        ...

    async def override(
        self, change: AccessChange, known: int, audit: tuple[AuditRow, ...], answered: Answered | None = None
    ) -> int | None:
        """Make a change and append its rows to the chain `audit`, in one step.

        Args:
            change: The change.
            known: The number of changes that it was made from.
            audit: The rows.
            answered: The pairing request that the change answers; it is closed in the same step.

        Returns:
            The new number of changes, None if there were others meanwhile and nothing changed.

        Raises:
            NotFoundError: The pairing request does not wait any more.
        """
        ...

    async def ask_pairing(self, account: str, channel: str, workspace: str, digest: str) -> bool:
        """Keep a stranger's pairing request under the hash of a code, and say whether it was kept.

        It is not kept while the same account waits or was refused lately, or the workspace has its most requests.
        """
        ...

    async def try_pairing(self, principal: str, *digests: str) -> tuple[str, str] | None:
        """Return the account that was given a code, and its digest; None for a wrong code, which counts.

        `digests` are those of one code under each key. A wrong code counts once against the principal.

        Raises BusyError: there were too many wrong codes.
        """
        ...

    async def pairings(self) -> tuple[PairingRequest, ...]:
        """Return the pairing requests that wait for an answer, the oldest first."""
        ...


class AuditStore(Protocol):
    """Audit chains: one for each session in the session's slot, and one named `audit` for all other decisions."""

    async def append(self, rows: tuple[AuditRow, ...]) -> None:
        """Append rows to the chain for decisions outside a session."""
        ...

    async def append_once(self, row: AuditRow, op: str) -> None:
        """Append a row to that chain, unless any process appended one under `op` within the last ten minutes."""
        ...

    async def records(self, chain: str, *, after: int = 0, limit: int = 1000) -> tuple[AuditRecord, ...]:
        """Return records with n > `after` of a session's chain or of the chain named `audit`."""
        ...

    async def head(self, chain: str) -> tuple[int, str]:
        """Return (n, hash) of the last record according to the store; (0, "") for an empty chain."""
        ...

    def moved(self) -> Mapping[str, tuple[int, str]]:
        """Return the heads that this process wrote or read since they were last `anchored`."""
        ...

    def anchored(self, heads: Mapping[str, tuple[int, str]]) -> None:
        """Note that heads are kept outside the store; a head that moved meanwhile is still to be kept."""
        ...

    def heads(self, *, idly: bool = False) -> AsyncIterator[tuple[str, tuple[int, str]]]:
        """Walk the heads of all chains that are not empty, in no order; `idly` walks slowly, for background use."""
        ...
