"""The commands of a running application, each made with the services that it declares."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.access.pairing import Pairing
from bot.access.session_ids import SessionIds
from bot.budgets import Budget
from bot.commands.accounts.connect import AccountCommands
from bot.commands.admin.access import AccessCommands
from bot.commands.admin.audit import AuditCommands
from bot.commands.admin.classify import ChatCommands
from bot.commands.admin.configuration import ConfigurationCommands
from bot.commands.admin.dead_letters import DeadLetterCommands
from bot.commands.agents import BackgroundCommands, PersonalCalls
from bot.commands.alternatives import AlternativeCommands
from bot.commands.approvals import ApprovalCommands
from bot.commands.background.runs import RunCommands
from bot.commands.background.schedules import ScheduleCommands
from bot.commands.command import Run
from bot.commands.conversation import ConversationCommands
from bot.commands.decisions import DecisionCommands
from bot.commands.held_messages import HeldMessageCommands
from bot.commands.inbox.grants import GrantCommands
from bot.commands.inbox.inbox import InboxCommands
from bot.commands.knowledge.memory import MemoryCommands
from bot.commands.knowledge.memory_use import MemoryUseCommands
from bot.commands.knowledge.skills import SkillCommands
from bot.commands.lifecycle import LifecycleCommands
from bot.commands.message_queue import QueueCommands
from bot.commands.models import ModelCommands
from bot.commands.questions import QuestionCommands
from bot.commands.release import ReleaseCommands
from bot.commands.sessions import SessionCommands
from bot.commands.summarize import SummaryCommands
from bot.commands.tools import ToolCommands
from bot.commands.workflows.workflow import WorkflowCommands
from bot.config.model import Config
from bot.core.clock import Clock
from bot.core.ids import Ids
from bot.delegation.spawn import Spawner
from bot.files.port import LabelledFiles
from bot.gate.gate import Gate
from bot.lineage.tracer import LineageTracer
from bot.mcp.accounts.connecting import AccountLinks
from bot.mcp.accounts.returns import ReturnPlace
from bot.mcp.accounts.tokens import AccountTokens
from bot.operations.approval_answers import ApprovalAnswers
from bot.operations.audit import AuditReader
from bot.operations.background.runs import RunOperations
from bot.operations.background.schedules import ScheduleOperations
from bot.operations.diagnostics import Diagnostics
from bot.operations.export import Exporter
from bot.operations.gated_calls import GatedCalls
from bot.operations.knowledge.memories import MemoryOperations
from bot.operations.knowledge.skills import SkillOperations
from bot.operations.lifecycle import SessionLifecycle
from bot.operations.question_answers import QuestionAnswers
from bot.operations.simulation import Simulator
from bot.operations.workflows.workflows import WorkflowOperations
from bot.pinned_agents import PinnedAgents
from bot.policy_state import PolicyReloader
from bot.sessions.ports.store import Store
from bot.tools.summarize import Recap
from channels.port import ChannelVault


@dataclass(frozen=True, slots=True)
class CommandServices:
    """The services of commands; the composition root gives them, and each command is made with those that it declares.

    `interrupt` stops a session's turn at once if it runs in this process, and `deliver` sends the texts that wait in an
    outbox. `close` edits the copies of questions that a session does not ask any more. `config` is the configuration
    that this process was started with. `vault` keeps values for commands of plugins.
    """

    clock: Clock
    store: Store
    gate: Gate
    ids: Ids
    files: LabelledFiles
    spawner: Spawner
    reloader: PolicyReloader
    exporter: Exporter
    lifecycle: SessionLifecycle
    interrupt: Callable[[str], None]
    close: Callable[[str], Awaitable[None]]
    deliver: Callable[[str], Awaitable[None]]
    recap: Recap
    pairing: Pairing
    audit: AuditReader
    lineage: LineageTracer
    budget: Budget
    diagnostics: Diagnostics
    config: Config
    simulator: Simulator
    session_ids: SessionIds
    approval_answers: ApprovalAnswers
    question_answers: QuestionAnswers
    agents: PinnedAgents
    calls: GatedCalls
    runs: RunOperations
    schedules: ScheduleOperations
    memories: MemoryOperations
    skills: SkillOperations
    workflows: WorkflowOperations
    vault: ChannelVault
    account_links: AccountLinks
    account_tokens: AccountTokens
    account_returns: ReturnPlace


class CommandHandlers:
    """The commands of a running application, each made with the services it needs.

    `services` are for the commands of plugins, `help` is the command that lists all.
    """

    def __init__(self, of: CommandServices, help_command: Run, start: Run) -> None:
        self.services, self.help, self.start, calls = of, help_command, start, PersonalCalls(of.calls)
        self.accounts, self.chats = _accounts(of), ChatCommands(gate=of.gate, reloader=of.reloader)
        self.alternatives = _alternatives(of, calls)
        self.access = AccessCommands(
            access=of.store.access, gate=of.gate, reloader=of.reloader, pairing=of.pairing, chats=self.chats
        )
        self.background = _background(of, calls)
        self.approvals = ApprovalCommands(answers=of.approval_answers, gate=of.gate, alternatives=self.alternatives)
        self.audit = AuditCommands(gate=of.gate, reader=of.audit, lineage=of.lineage)
        self.configuration = ConfigurationCommands(
            gate=of.gate, reloader=of.reloader, diagnostics=of.diagnostics, config=of.config
        )
        self.conversation = _conversation(of)
        self.dead_letters = DeadLetterCommands(outbox=of.store.outbox)
        self.decisions = DecisionCommands(
            sessions=of.store.sessions,
            index=of.store.index,
            simulator=of.simulator,
        )
        self.held_messages = HeldMessageCommands(
            sessions=of.store.sessions, delegation=of.store.delegation, gate=of.gate, ids=of.ids, close=of.close
        )
        self.lifecycle = LifecycleCommands(sessions=of.store.sessions, lifecycle=of.lifecycle)
        self.memories, self.skills, self.workflows = _knowledge(of)
        self.queue = QueueCommands(sessions=of.store.sessions, queue=of.store.queue, gate=of.gate)
        self.models = ModelCommands(
            sessions=of.store.sessions,
            lifecycle=of.store.lifecycle,
            gate=of.gate,
            ids=of.ids,
            budget=of.budget,
            config=of.config,
        )
        self.questions, self.tools = QuestionCommands(answers=of.question_answers), ToolCommands(gate=of.gate)
        self.release, self.grants = _release(of), GrantCommands(answers=of.approval_answers)
        self.runs = RunCommands(runs=of.runs, gate=of.gate, ids=of.ids)
        self.schedules = ScheduleCommands(
            schedules=of.schedules, gate=of.gate, ids=of.ids, time_zone=of.config.runs.time_zone
        )
        self.sessions = SessionCommands(
            sessions=of.store.sessions, index=of.store.index, gate=of.gate, exporter=of.exporter
        )
        self.summary = SummaryCommands(
            sessions=of.store.sessions,
            gate=of.gate,
            ids=of.ids,
            recap=of.recap,
            limits=of.config.limits.session,
        )

    @property
    def inbox(self) -> InboxCommands:
        """The list of everything that waits for a person, by kind."""
        groups = (
            ("Calls to approve:", self.approvals.waiting),
            ("Questions of agents:", self.questions.waiting),
            ("Messages of other sessions to let in:", self.held_messages.waiting),
            ("Texts to release:", self.release.waiting),
            ("Gates of workflows:", self.workflows.waiting),
            ("Skills to approve:", self.skills.waiting),
            ("Memories to keep:", self.memories.waiting),
            ("People to let in:", self.access.waiting),
        )
        return InboxCommands(groups, self.approvals.show)


def _accounts(services: CommandServices) -> AccountCommands:
    return AccountCommands(services.account_links, services.account_tokens, services.account_returns, services.gate)


def _knowledge(services: CommandServices) -> tuple[MemoryCommands, SkillCommands, WorkflowCommands]:
    return _memories(services), SkillCommands(skills=services.skills, gate=services.gate), _workflows(services)


def _alternatives(services: CommandServices, calls: PersonalCalls) -> AlternativeCommands:
    return AlternativeCommands(
        sessions=services.store.sessions,
        audit=services.store.audit,
        outbox=services.store.outbox,
        alternatives=services.store.alternatives,
        gate=services.gate,
        deliver=services.deliver,
        session_ids=services.session_ids,
        calls=calls,
    )


def _background(services: CommandServices, calls: PersonalCalls) -> BackgroundCommands:
    return BackgroundCommands(
        sessions=services.store.sessions,
        audit=services.store.audit,
        outbox=services.store.outbox,
        delegation=services.store.delegation,
        gate=services.gate,
        ids=services.ids,
        spawner=services.spawner,
        interrupt=services.interrupt,
        close=services.close,
        deliver=services.deliver,
        calls=calls,
    )


def _conversation(services: CommandServices) -> ConversationCommands:
    return ConversationCommands(
        store=services.store,
        sessions=services.store.sessions,
        audit=services.store.audit,
        outbox=services.store.outbox,
        gate=services.gate,
        ids=services.ids,
        files=services.files,
        spawner=services.spawner,
        interrupt=services.interrupt,
        session_ids=services.session_ids,
    )


def _memories(services: CommandServices) -> MemoryCommands:
    return MemoryCommands(
        memories=services.memories,
        gate=services.gate,
        ids=services.ids,
        use=MemoryUseCommands(services.store.sessions, services.ids),
    )


def _workflows(services: CommandServices) -> WorkflowCommands:
    return WorkflowCommands(
        workflows=services.workflows, sessions=services.store.sessions, gate=services.gate, ids=services.ids
    )


def _release(services: CommandServices) -> ReleaseCommands:
    return ReleaseCommands(
        sessions=services.store.sessions,
        outbox=services.store.outbox,
        gate=services.gate,
        ids=services.ids,
        deliver=services.deliver,
    )
