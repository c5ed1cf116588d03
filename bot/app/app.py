"""The composition root: the one place where the parts are made and given to one another.

`bot.app.opening` starts or reaches the store and has everything built on it; `App.serve` runs the worker. Modules that
need pydantic-ai are imported when serving begins, off the event loop, so that a prompt need not wait for them.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from bot.access.pairing import Pairing
from bot.access.session_ids import SessionIds
from bot.access.tokens import Tokens
from bot.admission.ambient import Observer
from bot.admission.result_files import ResultFiles
from bot.app.accounts import Accounts, accounts
from bot.app.extensions import Extensions
from bot.app.files import file_keeper, opened_files, tidy
from bot.app.keys import Secrets, key_keeper, shared_keys
from bot.app.knowledge import Knowledge
from bot.app.plugins import NO_PLUGINS, Plugins, ToolSetup, find_plugin
from bot.app.runs import managing, run_recorder, schedule_keeper, starters
from bot.app.stores import opened_store
from bot.app.telemetry import made_telemetry
from bot.app.workflows import workflow_keeper
from bot.audit.anchors import AnchoredChains
from bot.audit.visibility import AuditTrail
from bot.budgets import budget
from bot.commands.handlers import CommandServices
from bot.commands.suggestions import Suggestions
from bot.commands.table import CommandTable
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.clock import Clock, SystemClock
from bot.core.errors import ElsewhereError, StoreGoneError
from bot.core.ids import Ids
from bot.core.logs import bound
from bot.delegation.handoff import Handoff
from bot.delivery.alerts import Alerts
from bot.delivery.alternatives import Alternatives
from bot.delivery.holding import Holding
from bot.delivery.outbox import Outbox
from bot.delivery.question_updates import QuestionUpdates
from bot.delivery.rate_limits import RATES, RateLimits
from bot.delivery.relay import Relay
from bot.delivery.sweep import SWEEP_SECONDS, Sweep
from bot.failures import Failures
from bot.gate.gate import Gate
from bot.history.recall import unheard
from bot.ingress.admin_notices import AdminNotices
from bot.ingress.bot_loop_guard import BotLoopGuard
from bot.ingress.command_runner import CommandRunner
from bot.ingress.direct_answers import DirectAnswers
from bot.ingress.flood_limits import FloodLimits
from bot.ingress.inbox_writer import InboxWriter
from bot.ingress.memberships import Memberships
from bot.ingress.new_chats import NewChats
from bot.ingress.question_replies import QuestionReplies
from bot.ingress.refusals import Refusals
from bot.ingress.router import Router
from bot.ingress.unread_kinds import UnreadKinds
from bot.lineage.tracer import LineageTracer
from bot.mcp.servers import Servers
from bot.operations.approval_answers import ApprovalAnswers
from bot.operations.audit import AuditReader
from bot.operations.backups.backup import BackupMaker
from bot.operations.diagnostics import Diagnostics
from bot.operations.export import Exporter
from bot.operations.files.keeper import FileKeeper
from bot.operations.importing import Importer
from bot.operations.keys import KeyKeeper
from bot.operations.lifecycle import SessionLifecycle
from bot.operations.probes.replaced import log_dropped
from bot.operations.processes.failover import FailoverWatch
from bot.operations.processes.settings import ProcessSettings
from bot.operations.processes.shared_keys import SharedKeys
from bot.operations.question_answers import QuestionAnswers
from bot.operations.readiness import ReadinessChecks
from bot.operations.simulation import Simulator
from bot.operations.tokens import TokenKeeper
from bot.operations.workflows.workflows import WorkflowOperations
from bot.pinned_agents import PinnedAgents
from bot.policy_state import PolicyReloader, Tell, named
from bot.quarantine import Quarantine
from bot.rates import SharedRates
from bot.run_records.recorder import RunRecorder
from bot.schedules.keeper import ScheduleKeeper
from bot.telemetry.telemetry import Telemetry
from bot.tools import catalogue
from bot.tools.arguments import types
from bot.tools.base import Tool
from bot.tools.references import definition_digest
from bot.tools.web.connection import Connector
from bot.tools.web.fetch import WebFetch
from bot.worker.lease import LeaseKeeper
from bot.worker.model_loader import ModelLoader
from bot.workflows.keeper import WorkflowKeeper
from channels.api import Api
from channels.messages import Address, Inbound, Membership, Moved
from channels.port import Answer, Audience, Channel, ChannelVault, Platform

if TYPE_CHECKING:
    from bot.admission.transcription import Transcriber
    from bot.agent.thinking import Thinking
    from bot.app.workers import WorkerParts
    from bot.store.redis_store import RedisStore
    from bot.worker.worker import Worker


async def _nobody(_line: str) -> None:
    """Tell nobody: a process without a console is asked by the doctor."""


def _untold(_name: str) -> None:
    """Tell nobody which platform is listened to."""


class App:
    """The running application: the command line and the API work with it."""

    def __init__(  # noqa: PLR0913 - the composition root's inputs from outside
        self,
        *,
        config: Config,
        secrets: Secrets,
        store: "RedisStore",
        channels: Sequence[Channel],
        listened: Sequence[Platform],
        clock: Clock,
        environment: Mapping[str, str],
        parts: Extensions,
        plugins: Plugins = NO_PLUGINS,
    ) -> None:
        self.config, self.store, self.clock, self.ids = config, store, clock, Ids()
        self.session_ids = named_by = SessionIds(store.lifecycle, secrets.session, self.clock)
        self.chains = AnchoredChains(store.audit, config.data_dir / "anchors", secrets.audit, store.losses)
        self.files = opened_files(config, environment, self.ids, lambda: self.gate.document.top)
        self._secrets, self._environment, self._parts, self.plugins = secrets, environment, parts, plugins
        self.failures = Failures(self.vault, clock, store.process)
        self.resolve, self.listened = parts.resolve, tuple(listened)
        self.channels, self.rates = self._channels(channels), SharedRates(store.uses, clock)
        self.shared_keys, self.settings, self.telemetry = self._process()
        self._simulations = self.rates.limiter("simulations", config.limits.simulations_per_minute)
        self._serving: Worker | None = None
        self.accounts, self.servers = self._served()
        self.budget, self.model_loader = budget(store.budgets, self.ids, config), ModelLoader(self._made_thinking)
        self.agents, self.knowledge = self._agents(), Knowledge(store, config.knowledge)
        self.schedule_keeper, self.workflows = self._keepers()
        tools = self._known_tools = self._tools()
        self.spawner, self.run_starter = starters(store, config, named_by, self.agents.pin)
        self.gate = self._gate(tools)
        self.reloader = reloader = self._reloader(tools)
        self.failover, (self.tokens, self.token_keeper) = FailoverWatch(store, reloader), self._programs()
        self.pairing = Pairing(store, self.ids, secrets.session)
        self.exporter, self.importer = self._copies()
        self.simulator, self.audit, self.lineage = self._readings()
        self.quarantine, self.alternatives = Quarantine(store.quarantine, store.lifecycle), self._alternatives()
        self.outbox = self._outbox()
        self.question_updates = QuestionUpdates(store, self.gate, self.outbox)
        self.approval_answers, self.question_answers = self._answers()
        self._notices, self.new_chats, self._memberships = self._arrivals()
        self.observer, self.lifecycle = self._observer(), self._lifecycle()
        self.calls, self.runs, self.schedules = managing(
            store, self.gate, keeper=self.schedule_keeper, lifecycle=self.lifecycle, ids=self.session_ids, clock=clock
        )
        self.memories, self.skills = self.knowledge.managed(self.calls)
        self.workflow_operations = WorkflowOperations(self.workflows, self.calls)
        self.recorder, self.diagnostics, self.readiness = self._recorder(), self._diagnostics(), self._readiness()
        self.commands = self._commands()
        self.router = self._router()

    def _process(self) -> tuple[SharedKeys, ProcessSettings, Telemetry]:
        """Return this process's keys and settings, which others compare, and its telemetry. Raises OperatorError."""
        config, store, secrets = self.config, self.store, self._secrets
        keys = shared_keys(secrets, store, self.chains.retired, config.data_dir)
        settings = ProcessSettings(self.vault, config, self._environment, name=store.process, process=named())
        key = secrets.session.current
        return keys, settings, made_telemetry(config, self._environment, store, self.clock, key=key)

    def _served(self) -> tuple[Accounts, Servers]:
        """Return the MCP servers and the accounts at them. Raises OperatorError: a client's secret is not set."""
        config, environment, clock = self.config, self._environment, self.clock
        made = accounts(config, environment, self.vault, self.store.audit, clock=clock, ids=self.ids)
        scrub, files = self._secrets.keyring.scrub, ResultFiles(self.files)
        return made, Servers(config.mcp_servers, environment, clock, scrub, keep=files, accounts=made.tokens)

    def _observer(self) -> Observer:
        return Observer(self.store.observed, self.gate, self.session_ids.first, self.rates)

    def _readings(self) -> tuple[Simulator, AuditReader, LineageTracer]:
        """Return the simulator of calls, and the readers of decisions and of lineage."""
        trail = AuditTrail(self.store, self.chains, lambda: self.gate.document.top)
        lineage = LineageTracer(self.store, self.files, lambda: self.gate.document, self.gate.masks.masked)
        simulator = Simulator(self.gate, self.store, self._simulations)
        return simulator, AuditReader(self.chains, trail), lineage

    def _arrivals(self) -> tuple[AdminNotices, NewChats, Memberships]:
        """Return the parts that take note of chats that the bot joins or leaves."""
        notices = AdminNotices(self.gate, self.outbox, self.clock)
        new_chats = NewChats(self.store.counts, self.gate, notices)
        return notices, new_chats, Memberships(self.gate, self.reloader, self.store.audit, new_chats)

    def _tools(self) -> tuple[Tool, ...]:
        parts = catalogue.ToolParts(
            simulations=self._simulations,
            web=WebFetch(Connector(self.resolve, self.config.web.private), self.config.web),
            recap=self.model_loader.recap,
            inspect=self.model_loader.inspect,
            agents=self.agents,
            runs=self.config.runs.limits,
            schedules=self.schedule_keeper,
            memories=self.knowledge.keeper,
            knowledge=self.knowledge.search,
            skills=self.knowledge.skills,
            patterns=self.knowledge.patterns,
            briefings=self.knowledge.briefings,
            workflows=self.workflows,
        )
        built_in = catalogue.built_in(self.files, self.store, parts)
        added = self.plugins.tools(ToolSetup(self.files, self.store.sessions), self.config.tools)
        return (*built_in, *self.servers.tools, *self._parts.tools(self.files, self.store.sessions), *added)

    def _copies(self) -> tuple[Exporter, Importer]:
        """Return the parts that export sessions, and that import them."""
        valid, ids, trusted = self.chains.retired.valid, self.session_ids, self.config.imports.keys
        importer = Importer(self.gate, self.store, audit_keys=valid, session_ids=ids, trusted=trusted)
        return Exporter(self.gate, self.store, valid), importer

    def _keepers(self) -> tuple[ScheduleKeeper, WorkflowKeeper]:
        """Return the keepers of schedules and of workflows."""
        schedules = schedule_keeper(self.store, self.config.runs, lambda: self.gate.document)
        return schedules, workflow_keeper(self.store, self.files, self.config.workflows, lambda: self.gate.document)

    def _agents(self) -> PinnedAgents:
        return PinnedAgents(
            self.store.agents,
            self.config,
            tools=lambda: {tool.name: definition_digest(tool) for tool in self._known_tools},
            in_force=lambda: self.gate.document,
            limits=self.config.limits.session,
        )

    def _alternatives(self) -> Alternatives:
        life = self.config.limits.offer_ms
        return Alternatives(self.store.alternatives, self.gate, self.ids, session_id=self.session_ids.first, life=life)

    def _gate(self, tools: Iterable[Tool]) -> Gate:
        config, keyring = self.config, self._secrets.keyring
        return Gate(
            config.policy,
            tools,
            config.model.all,
            self._audience,
            keyring=keyring,
            spawner=self.spawner,
            runs=self.run_starter,
        )

    def _reloader(self, tools: Iterable[Tool]) -> PolicyReloader:
        # The arguments of tools of servers and plugins are in the file that is read again.
        again = self.plugins.tool_names
        arguments = {tool.name: types(tool.arguments) for tool in tools if not tool.server and tool.name not in again}
        load = partial(load_config, self.config.source, self._environment, arguments, find_plugin)
        store, keys = self.store, self.shared_keys
        return PolicyReloader(self.gate, self.config, load=load, store=store, process=named(), keys=keys)

    def _channels(self, given: Sequence[Channel]) -> dict[str, Channel]:
        """Return the channels of this process by name; programs have one in every process."""
        programs = () if self.config.channels.api is None else (Api(),)
        return {channel.name: channel for channel in (*given, *programs, *self.listened)}

    def _answers(self) -> tuple[ApprovalAnswers, QuestionAnswers]:
        """Return the parts that take people's answers to questions of the gate, and to those of agents."""
        approvals, close = self.store.approvals, self.question_updates.close
        return ApprovalAnswers(approvals, self.gate, close), QuestionAnswers(approvals, self.gate, close)

    def _programs(self) -> tuple[Tokens, TokenKeeper]:
        """Return the part that recognises programs by their tokens, and the part that makes and changes those."""
        in_force, live, secrets = lambda: self.gate.document, lambda: self.reloader.live_tokens, self._secrets
        tokens = Tokens(in_force, live, now=self.store.tokens.now_ms, keys=secrets.tokens, follow=secrets.follow)
        return tokens, TokenKeeper(self.store, self.reloader, tokens, ids=self.ids)

    def vault(self) -> ChannelVault:
        """Return the encrypted vault of the adapters."""
        return self.store.vault(self._secrets.vault)

    def backup(self) -> BackupMaker:
        """Return the part that makes backups."""
        key, names = self._secrets.audit.current, self._secrets.needed
        bucket = None if self.config.files.bucket is None else self.files
        return BackupMaker(self.store, self.config, key=key, names=names, bucket=bucket)

    def file_keeper(self) -> FileKeeper:
        """Return the part that moves and labels files for the operator."""
        return file_keeper(self.config, self.files, lambda: self.gate.document, self.store)

    def key_keeper(self) -> KeyKeeper:
        """Return the part that lists and changes keys."""
        return key_keeper(self._secrets, self.store, self.chains, self.shared_keys.agree)

    def session_id(self, address: Address) -> str:
        """Return the id that the first session of an address gets if it begins now."""
        return self.session_ids.newest(address)

    @property
    def suggestions(self) -> Suggestions:
        """The completions of the lines that people type."""
        return Suggestions(self.commands, self.gate, self.store.index, self.files)

    def _commands(self) -> CommandTable:
        services = CommandServices(
            clock=self.clock,
            store=self.store,
            gate=self.gate,
            ids=self.ids,
            files=self.files,
            spawner=self.spawner,
            reloader=self.reloader,
            exporter=self.exporter,
            lifecycle=self.lifecycle,
            interrupt=self._interrupt,
            close=self.question_updates.close,
            deliver=self.outbox.collect,
            recap=self.model_loader.recap,
            pairing=self.pairing,
            audit=self.audit,
            lineage=self.lineage,
            budget=self.budget,
            diagnostics=self.diagnostics,
            config=self.config,
            simulator=self.simulator,
            session_ids=self.session_ids,
            approval_answers=self.approval_answers,
            question_answers=self.question_answers,
            agents=self.agents,
            calls=self.calls,
            runs=self.runs,
            schedules=self.schedules,
            memories=self.memories,
            skills=self.skills,
            workflows=self.workflow_operations,
            vault=self.vault(),
            account_links=self.accounts.links,
            account_tokens=self.accounts.tokens,
            account_returns=self.accounts.returns,
        )
        return CommandTable(services, self.plugins.commands)

    def _recorder(self) -> RunRecorder:
        return run_recorder(self.store, self.config, self.gate, self.ids)

    def _lifecycle(self) -> SessionLifecycle:
        return SessionLifecycle(
            store=self.store,
            session_ids=self.session_ids,
            spawner=self.spawner,
            files=self.files,
            top=lambda: self.gate.document.top,
            interrupt=self._interrupt,
            close=self.question_updates.close,
        )

    def _readiness(self) -> ReadinessChecks:
        names, keys, waits = [one.name for one in self.listened], self.shared_keys, self.store.rights.waiting
        return ReadinessChecks(self.reloader, names, lambda: self._serving is not None, keys=keys, waiting=waits)

    def _diagnostics(self) -> Diagnostics:
        return Diagnostics(
            self.config,
            self._environment,
            complaints=self.store.complaints,
            listened=self.listened,
            failures=self.failures,
            sessions=self.store,
            offered=lambda: self.gate.tools,
        )

    async def serve(self, tell: Tell = _nobody) -> None:
        """Put this process's policy in force, then run the worker, the anchoring and the MCP servers that are called.

        Runs until cancelled. `tell` is called when this process stops serving because another policy was put in force.
        """
        await self._start(tell)
        await asyncio.to_thread(self.gate.policy.load)
        await asyncio.to_thread(import_module, "bot.app.workers")
        from bot.agent.call_runs import call_runs
        from bot.app import workers

        thinking = await self.model_loader.thinking()
        transcriber = await asyncio.to_thread(self._made_transcriber)
        keeper = LeaseKeeper(self._open_own_store, self.config.store.lease_seconds, self.clock)
        try:
            async with call_runs(self.config.limits.cancel_grace_seconds) as runs, asyncio.TaskGroup() as tasks:
                self._begin_chores(tasks, tell)
                tasks.create_task(self.servers.serve())
                tasks.create_task(tidy(self.files, self.lifecycle))
                parts = self.worker_parts()
                self._serving = workers.worker(parts, keeper, thinking, runs, transcriber=transcriber)
                tasks.create_task(self._serving.serve())
                tasks.create_task(workers.timers(parts, self.session_ids).serve())
        finally:
            self._serving = None
            await keeper.close()
            if transcriber is not None:
                await transcriber.close()

    async def drain(self, hurry: asyncio.Event) -> int:
        """Take no more turns on, and let those that run end for as long as is configured, less if `hurry` is set.

        Then they are left to other processes. Returns how many sessions were left so. `serve` goes on meanwhile.
        """
        self.readiness.ending = True
        return 0 if self._serving is None else await self._serving.drain(self.config.limits.drain_seconds, hurry)

    async def deliver(self, tell: Tell = _nobody) -> None:
        """As `serve`, in a process that runs no turns: it delivers waiting texts."""
        await self._start(tell)
        async with asyncio.TaskGroup() as tasks:
            self._begin_chores(tasks, tell)
            tasks.create_task(self._relay().serve())

    def _begin_chores(self, tasks: asyncio.TaskGroup, tell: Tell) -> None:
        """Begin the work that every serving process does beside its own."""
        chores = (self.chains.anchoring, self.chains.walking, self.rates.serve, self.settings.serve)
        for chore in (*chores, self._alerts().serve, self.failover.serve):
            tasks.create_task(chore())
        tasks.create_task(self.shared_keys.follow(tell))
        tasks.create_task(self.telemetry.serve())

    async def listen(self, began: Callable[[str], None] = _untold) -> None:
        """Listen to the platforms of this process until cancelled, beside `serve` or `deliver`.

        `began` gets the name of each when it is listened to.
        """

        def heard(name: str) -> None:
            self.readiness.heard.add(name)
            began(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.accounts.returns.serve())
            for adapter in self.listened:
                tasks.create_task(adapter.serve(self.receive, partial(heard, adapter.name)))

    async def close(self) -> None:
        """Close the connections to platforms and models."""
        for adapter in self.listened:
            await adapter.close()
        await self.model_loader.close()
        await self.telemetry.close()
        await self.knowledge.search.close()
        await self.accounts.close()

    def _alerts(self) -> Alerts:
        return Alerts(self.failures, self.store.counts, gate=self.gate, outbox=self.outbox, clock=self.clock)

    def _outbox(self) -> Outbox:
        return Outbox(
            store=self.store,
            channels=self.channels,
            gate=self.gate,
            sender=self.store.process,
            handoff=Handoff(self.store, self.config.limits.endorsed_bits, partial(unheard, self.store.sessions)),
            holding=Holding(self.store, self.gate, self.clock),
            alternatives=self.alternatives,
            clock=self.clock,
            ids=self.ids,
            in_force=self.reloader.current,
            rate_limits=RateLimits(self.store.rate_limits, RATES),
            hours=self.config.limits.delivery_hours,
            telemetry=self.telemetry,
        )

    def _relay(self) -> Relay:
        return Relay(self.outbox, self.sweep("relay"), self.reloader, self.quarantine)

    def sweep(self, role: str) -> Sweep:
        """Return the sweep for work without a mark, for processes of one role."""
        return Sweep(self.store.wake, self.outbox, self.question_updates, self.quarantine, role=role)

    def _router(self) -> Router:
        limits, channels, audit = self.config.limits, self.config.channels, self.store.audit
        bots = BotLoopGuard(self.store.counts, self._notices, channels.bots)
        return Router(
            gate=self.gate,
            reloader=self.reloader,
            quarantine=self.quarantine,
            session_ids=self.session_ids,
            limits=FloodLimits(
                self.gate, audit, bots, rates=self.rates, told=self.store.counts, most=limits.person_messages_per_minute
            ),
            observer=self.observer,
            refusals=Refusals(self.gate, audit, self.pairing),
            commands=CommandRunner(self.commands, self.session_ids, audit),
            inbox=InboxWriter(
                self.store.sessions,
                self.gate,
                self.session_ids,
                interrupt=self._interrupt,
                longest=limits.message_characters,
                agents=self.agents,
            ),
            replies=QuestionReplies(self.question_answers, self.store.counts),
            answers=DirectAnswers(self.gate, self.outbox, self.reloader, new_chats=self.new_chats, clock=self.clock),
            unread=UnreadKinds(self.store.counts),
        )

    async def receive(self, event: Inbound | Membership | Moved) -> Answer | None:
        """Take in an event of a platform, and return the answer that is still to be sent.

        Raises StoreError: it could not be kept, so the platform must send it again.
        """
        if isinstance(event, Inbound):
            return (await self.router.take(event)).say
        with bound(request=event.dedupe):
            await self._memberships.heard(event)
        return None

    async def _start(self, tell: Tell) -> None:
        log_dropped(self.config)
        while True:
            try:
                await self.reloader.start(tell)
                break
            except StoreGoneError:
                await asyncio.sleep(SWEEP_SECONDS)

    def _interrupt(self, sid: str, only: str = "") -> None:
        if self._serving is not None:
            self._serving.interrupt(sid, only)

    def _made_thinking(self) -> "Thinking":
        from bot.agent.thinking import thinking

        return thinking(
            self.config.model,
            self._environment,
            gate=self.gate,
            audit=self.store.audit,
            budget=self.budget,
            agents=self.agents.configured,
            credential=self._secrets.keyring.credential,
            maker=self._parts.model,
        )

    def _made_transcriber(self) -> "Transcriber | None":
        from bot.admission.transcription import transcriber

        return self._parts.transcriber or transcriber(self.config.transcriber, self._environment)

    def worker_parts(self) -> "WorkerParts":
        """Return the parts that workers of this application are made from."""
        from bot.app.workers import WorkerParts

        return WorkerParts(
            config=self.config,
            store=self.store,
            ids=self.ids,
            gate=self.gate,
            agents=self.agents,
            alternatives=self.alternatives,
            budget=self.budget,
            channels=self.channels,
            files=self.files,
            observer=self.observer,
            outbox=self.outbox,
            quarantine=self.quarantine,
            question_updates=self.question_updates,
            recorder=self.recorder,
            reloader=self.reloader,
            run_limits=self.config.runs.limits,
            spawner=self.spawner,
            sweep=self.sweep("worker"),
            telemetry=self.telemetry,
            workflows=self.workflows,
        )

    async def _audience(self, address: Address) -> Audience:
        """Ask the channel of an address who reads there; one that this process does not serve cannot tell.

        Raises:
            ElsewhereError: another process is to have it.
            KeyError: there is no such channel.
        """
        if address.channel not in self.channels and address.channel in self.config.channels.listened:
            raise ElsewhereError
        return await self.channels[address.channel].audience(address)

    @asynccontextmanager
    async def _open_own_store(self) -> AsyncGenerator["RedisStore"]:
        store = await opened_store(self.config, self._secrets, SystemClock())
        try:
            yield store
        finally:
            await store.close()
