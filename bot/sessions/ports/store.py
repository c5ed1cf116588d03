"""The store as everything else sees it: its parts, each by its port (`bot.sessions.ports`)."""

from typing import Protocol

from bot.sessions.ports.accounts import AgentStore, BudgetStore, CountStore, DelegationStore
from bot.sessions.ports.changes import Changes
from bot.sessions.ports.delivery import AlternativeStore, OutboxStore, QuestionCopyStore, RateLimitStore
from bot.sessions.ports.knowledge import MemoryStore, SkillStore
from bot.sessions.ports.people import AccessStore, ApprovalStore, AuditStore, PolicyStore
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
    """What `bot.store` implements."""

    @property
    def sessions(self) -> SessionStore:
        """Its part for sessions."""
        ...

    @property
    def lifecycle(self) -> LifecycleStore:
        """Its part for lifecycle."""
        ...

    @property
    def agents(self) -> AgentStore:
        """Its part for agents."""
        ...

    @property
    def index(self) -> SessionIndex:
        """Its part for index."""
        ...

    @property
    def queue(self) -> QueueStore:
        """Its part for queue."""
        ...

    @property
    def approvals(self) -> ApprovalStore:
        """Its part for approvals."""
        ...

    @property
    def wake(self) -> Wake:
        """Its part for wake."""
        ...

    @property
    def outbox(self) -> OutboxStore:
        """Its part for outbox."""
        ...

    @property
    def audit(self) -> AuditStore:
        """Its part for audit."""
        ...

    @property
    def policy(self) -> PolicyStore:
        """Its part for policy."""
        ...

    @property
    def access(self) -> AccessStore:
        """Its part for access."""
        ...

    @property
    def tokens(self) -> TokenStore:
        """Its part for tokens of programs."""
        ...

    @property
    def delegation(self) -> DelegationStore:
        """Its part for delegation."""
        ...

    @property
    def observed(self) -> ObservedStore:
        """Its part for observed."""
        ...

    @property
    def rate_limits(self) -> RateLimitStore:
        """Its part for rate limits."""
        ...

    @property
    def alternatives(self) -> AlternativeStore:
        """Its part for alternatives."""
        ...

    @property
    def question_copies(self) -> QuestionCopyStore:
        """Its part for question copies."""
        ...

    @property
    def counts(self) -> CountStore:
        """Its part for counts."""
        ...

    @property
    def quarantine(self) -> QuarantineStore:
        """Its part for quarantine."""
        ...

    @property
    def budgets(self) -> BudgetStore:
        """Its part for budgets."""
        ...

    @property
    def webhooks(self) -> WebhookStore:
        """Its part for webhooks."""
        ...

    @property
    def runs(self) -> RunStore:
        """Its part for runs."""
        ...

    @property
    def schedules(self) -> ScheduleStore:
        """Its part for schedules, reminders and timers."""
        ...

    @property
    def record_keys(self) -> RecordKeys:
        """Its part for the keys of run records."""
        ...

    @property
    def memories(self) -> MemoryStore:
        """Its part for what sessions have learned."""
        ...

    @property
    def skills(self) -> SkillStore:
        """Its part for skills."""
        ...

    @property
    def workflows(self) -> WorkflowStore:
        """Its part for workflows."""
        ...

    @property
    def changes(self) -> Changes:
        """Its part for changes."""
        ...
