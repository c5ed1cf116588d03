"""The store as the rest of the program sees it: its parts, each behind its own port (`bot.sessions.ports`)."""

from typing import Protocol

from bot.core.clock import Clock
from bot.sessions.installation.clocks import NodeClock
from bot.sessions.ports.accounts import AgentStore, BudgetStore, CountStore, DelegationStore, UseStore
from bot.sessions.ports.backups import BackupStore
from bot.sessions.ports.changes import Changes
from bot.sessions.ports.delivery import AlternativeStore, OutboxStore, QuestionCopyStore, RateLimitStore
from bot.sessions.ports.knowledge import MemoryStore, SkillStore
from bot.sessions.ports.losses import LossStore
from bot.sessions.ports.people import AccessStore, ApprovalStore, AuditStore, InstallationKeyStore, PolicyStore
from bot.sessions.ports.programs import TokenStore
from bot.sessions.ports.runs import RecordKeys, RunStore, ScheduleStore
from bot.sessions.ports.sessions import (
    LifecycleStore,
    ObservedStore,
    QuarantineStore,
    QueueStore,
    SessionIndex,
    SessionStore,
    Wake,
)
from bot.sessions.ports.webhooks import WebhookStore
from bot.sessions.ports.workflows import WorkflowStore


class Store(Protocol):
    """The port that `bot.store` implements."""

    @property
    def sessions(self) -> SessionStore:
        """Sessions: their inputs, turns, events and records."""
        ...

    @property
    def lifecycle(self) -> LifecycleStore:
        """The lives of sessions: pausing, archiving, deleting, and past turns."""
        ...

    @property
    def agents(self) -> AgentStore:
        """Snapshots of agents that sessions pin."""
        ...

    @property
    def index(self) -> SessionIndex:
        """Listings of sessions."""
        ...

    @property
    def queue(self) -> QueueStore:
        """Queue modes, and inputs that wait."""
        ...

    @property
    def approvals(self) -> ApprovalStore:
        """Approvals and questions to people."""
        ...

    @property
    def wake(self) -> Wake:
        """Hints that a session has work."""
        ...

    @property
    def outbox(self) -> OutboxStore:
        """The outbox: deliveries that were committed and wait to be sent."""
        ...

    @property
    def audit(self) -> AuditStore:
        """Audit chains."""
        ...

    @property
    def policy(self) -> PolicyStore:
        """The policy in force."""
        ...

    @property
    def access(self) -> AccessStore:
        """Changes of principals and chats, and pairing requests."""
        ...

    @property
    def tokens(self) -> TokenStore:
        """Tokens of programs."""
        ...

    @property
    def delegation(self) -> DelegationStore:
        """Background sessions: slots, parcels and held items."""
        ...

    @property
    def observed(self) -> ObservedStore:
        """Texts observed in shared chats."""
        ...

    @property
    def rate_limits(self) -> RateLimitStore:
        """Rate limits of sending."""
        ...

    @property
    def alternatives(self) -> AlternativeStore:
        """Alternatives that were offered."""
        ...

    @property
    def question_copies(self) -> QuestionCopyStore:
        """Copies of questions in chats."""
        ...

    @property
    def counts(self) -> CountStore:
        """Named counters."""
        ...

    @property
    def uses(self) -> UseStore:
        """Uses of things with a limit."""
        ...

    @property
    def installation_keys(self) -> InstallationKeyStore:
        """The names of the keys in use."""
        ...

    @property
    def quarantine(self) -> QuarantineStore:
        """Sessions in quarantine."""
        ...

    @property
    def budgets(self) -> BudgetStore:
        """Token budgets."""
        ...

    @property
    def webhooks(self) -> WebhookStore:
        """Webhooks of programs."""
        ...

    @property
    def runs(self) -> RunStore:
        """Runs, their slots and their steering notes."""
        ...

    @property
    def schedules(self) -> ScheduleStore:
        """Schedules, reminders and timers."""
        ...

    @property
    def record_keys(self) -> RecordKeys:
        """Keys of run records."""
        ...

    @property
    def memories(self) -> MemoryStore:
        """Memories of sessions."""
        ...

    @property
    def skills(self) -> SkillStore:
        """Skills."""
        ...

    @property
    def workflows(self) -> WorkflowStore:
        """Logs of workflows."""
        ...

    @property
    def changes(self) -> Changes:
        """Hints that a session's record was written."""
        ...

    @property
    def losses(self) -> LossStore:
        """Losses of acknowledged writes."""
        ...

    @property
    def time(self) -> Clock:
        """The store's time, by which rights begin and end."""
        ...

    async def clocks(self) -> tuple[NodeClock, ...]:
        """Return how far the clock of each of its servers is ahead of that of this machine.

        Raises StoreError: its servers are not known.
        """
        ...

    @property
    def backups(self) -> BackupStore:
        """Copies of all keys, and their return."""
        ...
