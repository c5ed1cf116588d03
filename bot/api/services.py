"""The parts of the application that modules of routes work with."""

import asyncio
from dataclasses import dataclass

from bot.access.tokens import Tokens
from bot.config.api import ApiSettings
from bot.config.model import Config
from bot.core.clock import Clock
from bot.core.ids import Ids
from bot.gate.gate import Gate
from bot.ingress.router import Router
from bot.lineage.tracer import LineageTracer
from bot.operations.approval_answers import ApprovalAnswers
from bot.operations.audit import AuditReader
from bot.operations.background.runs import RunOperations
from bot.operations.background.schedules import ScheduleOperations
from bot.operations.export import Exporter
from bot.operations.gated_calls import GatedCalls
from bot.operations.importing import Importer
from bot.operations.knowledge.memories import MemoryOperations
from bot.operations.lifecycle import SessionLifecycle
from bot.operations.question_answers import QuestionAnswers
from bot.operations.reading import SessionReader
from bot.operations.simulation import Simulator
from bot.operations.workflows.workflows import WorkflowOperations
from bot.pinned_agents import PinnedAgents
from bot.policy_state import PolicyReloader
from bot.rates import SharedRates
from bot.sessions.ports.store import Store
from bot.webhooks.keeper import WebhookKeeper
from channels.port import ChannelVault


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """The parts of the application that routes work with, made in `bot.app.programs`.

    `closing` is set when this process is to end: a waiting request or a stream then reports that and ends.
    """

    settings: ApiSettings
    config: Config
    clock: Clock
    ids: Ids
    tokens: Tokens
    gate: Gate
    calls: GatedCalls
    reloader: PolicyReloader
    rates: SharedRates
    store: Store
    vault: ChannelVault
    router: Router
    agents: PinnedAgents
    lifecycle: SessionLifecycle
    reading: SessionReader
    exporter: Exporter
    importer: Importer
    simulator: Simulator
    audit: AuditReader
    lineage: LineageTracer
    approval_answers: ApprovalAnswers
    question_answers: QuestionAnswers
    webhooks: WebhookKeeper
    runs: RunOperations
    schedules: ScheduleOperations
    memories: MemoryOperations
    workflows: WorkflowOperations
    closing: asyncio.Event
