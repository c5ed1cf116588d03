"""Commands about the session itself: who asks, its status, its taint, stopping and starting anew."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling, present_readers, principals
from bot.access.authorize import at_least
from bot.access.session_ids import SessionIds
from bot.commands.admin.classify import NOT_CLASSIFIED
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError, label_named
from bot.commands.models import described
from bot.core.clock import moment
from bot.core.ids import Ids
from bot.delegation import receipts
from bot.delegation.spawn import Spawner
from bot.delivery import undelivered
from bot.files.port import LabelledFiles
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.history import event_log
from bot.pinned_agents import told
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import OURS, NewDelivery
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.log.event_types import MemoriesRecalled, SessionSummary, TaintRaised, TurnStarted
from bot.sessions.models import Claim, SessionState, Write
from bot.sessions.ports.delivery import OutboxStore
from bot.sessions.ports.people import AuditStore
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.ports.store import Store
from bot.sessions.transcript import backwards
from bot.tools.sessions import describe
from bot.worker.finish import constant
from channels.messages import Address, OutboundKind
from policy.decision import Verdict
from policy.document.overrides import ChatPlace
from policy.labels import PUBLIC, Label
from policy.request import Hook, Role

NOTHING_YET: Final = "This conversation has not begun, it has read nothing."

BEGINS: Final = "A new conversation begins, taint {}."
FILES_LEFT: Final = "Files of the workspace before could not be erased; another `/reset` tries again."

NOTHING_RUNS: Final = "There is nothing to stop here; its background sessions are stopped, if there are any."
STOPPED: Final = "Any turn that ran here is stopped, with its background sessions."
"""The answer where it may not be known whether anything ran."""

_LOOKED_BACK: Final = 1000
_CAUSES: Final = 5


@dataclass(frozen=True, slots=True)
class ConversationCommands:
    """Show the present conversation, stop it, or begin a new one."""

    sessions: SessionStore
    store: Store
    audit: AuditStore
    outbox: OutboxStore
    gate: Gate
    ids: Ids
    files: LabelledFiles
    spawner: Spawner
    interrupt: Callable[[str], None]
    session_ids: SessionIds

    async def whoami(self, request: CommandRequest, argument: str) -> Reply:
        """Show the caller's principal, role and clearance, and the clearance of this address."""
        _nothing_more(argument)
        here = request.address
        everybody = (await self.gate.readers.destination(replace(here, recipient=""))).clearance or PUBLIC
        alone = (await self.gate.readers.destination(here)).clearance or PUBLIC
        cleared = f"cleared for {everybody}"
        if await request.in_shared_chat() and self._nobody_classified(request):
            cleared = f"not classified. {NOT_CLASSIFIED.removesuffix('.')}"
        told = f" Answers to you alone may be {alone} at most." if here.recipient else ""
        return Reply(
            f"You are {request.caller.principal}, {request.caller.role}, cleared for {request.caller.clearance}.\n"
            f"Here is {ChatPlace(here.channel, here.workspace, here.chat)}, {cleared}.{told}"
        )

    def _nobody_classified(self, request: CommandRequest) -> bool:
        document, here = self.gate.document, request.address
        chat = document.chat(here.channel, here.workspace, here.chat)
        return chat is None and labelling.classification(document, replace(here, recipient="")) is None

    async def status(self, request: CommandRequest, argument: str) -> Reply:
        """Tell the session's record, or the state of a message that was sent from here to another session."""
        if len(argument.split()) > 1:
            raise UsageError("")
        state, observed = await request.state(), self._observed(request)
        if state is None:
            return Reply(f"{NOTHING_YET}{observed}")
        if argument:
            return await self._receipt(request, state, argument)
        record = describe(state, request.caller.clearance)
        last = state.last_turn
        length = state.seq - state.generation_seq + 1
        missed, label = await self._undelivered(request, state)
        ended = "none" if last is None else f"{last.reason} ({last.error})" if last.error else str(last.reason)
        return Reply(
            f"session {state.sid} of {state.principal} on {record['channel']}\n"
            f"status {state.status}, taint {state.taint}, clearance {request.caller.clearance}\n"
            f"waiting {state.waiting_items}, log {length} events, generation {state.generation}\n"
            f"last turn {ended}\n"
            f"{await self._agent(request, state)}\n"
            f"{await self._memories(request, state)}\n"
            f"usage {described(state.usage)}{await self._recap(state)}{observed}{missed}",
            state.visibility.join(label),
        )

    async def _agent(self, request: CommandRequest, state: SessionState) -> str:
        """Return the agent of a session, and its settings that differ from the configuration by now, each on a line."""
        agent = await request.agent(state)
        return "\n".join(told(agent, request.agents.drift(agent)))

    async def _memories(self, request: CommandRequest, state: SessionState) -> str:
        """Return a session's use of memories, and how many were recalled by themselves in its newest turn."""
        use = (await request.agent(state)).using(state.memory).memory
        if use is not MemoryUse.AUTO:
            return f"memories {use}"
        many = 0
        async for event in backwards(self.sessions, state):
            if isinstance(event.body, MemoriesRecalled):
                many = len(event.body.memories)
            if isinstance(event.body, TurnStarted | MemoriesRecalled):
                break
        return f"memories {use}, {many} recalled in the newest turn"

    async def _undelivered(self, request: CommandRequest, state: SessionState) -> tuple[str, Label]:
        """Return a line about each text that did not reach the caller, with the label of these lines."""
        if not state.unsaid:
            return "", PUBLIC
        every, reader = await self.outbox.deliveries(state.sid), (await request.standing(None)).reader
        home, person = Address.parse(state.home), request.caller.principal
        return undelivered.lines(every, state.generation, home=home, person=person, reader=reader)

    async def _recap(self, state: SessionState) -> str:
        """Return a line about the newest recap that may stand for the conversation before it, empty if there is none.

        Where the context does not begin with one, no further back than `_LOOKED_BACK` events.
        """
        least = state.context_seq if state.context_seq > state.generation_seq else state.seq - _LOOKED_BACK
        async for event in backwards(self.sessions, state):
            if event.seq < least:
                break
            if isinstance(event.body, SessionSummary) and not event.body.topic:
                return f"\nrecap of {moment(event.ts)} UTC, {event.body.messages} messages summarized"
        return ""

    async def stop(self, request: CommandRequest, argument: str) -> Reply:
        """Stop the running turn and cancel the waiting messages."""
        _nothing_more(argument)
        reader = (await request.standing(None)).reader
        stopped = await self.sessions.stop(request.sid, actor=request.caller.principal, reader=reader)
        # A turn in another process learns of it when it next writes or renews its lease.
        self.interrupt(request.sid)
        # Whether there were any is not told: they may be above the clearance here.
        state = await request.state()
        whose = request.caller.principal if state is None else state.principal
        await self.spawner.stop(whose, request.sid, request.typed, interrupt=self.interrupt)
        if state is not None:
            await self._answer(request, state, stopped.unanswered)
        if await request.above(state):
            # Neither is whether a session above those who read here was running, nor how many messages it had taken in.
            return Reply(STOPPED)
        if not stopped.running and not stopped.cancelled:
            return Reply(NOTHING_RUNS)
        many = f"{stopped.cancelled} waiting {'message' if stopped.cancelled == 1 else 'messages'} cancelled"
        told = "Stopping the turn" if stopped.running else "Nothing was running"
        return Reply(f"{told}, {many}." if stopped.cancelled else f"{told}.")

    async def _answer(self, request: CommandRequest, state: SessionState, positions: tuple[int, ...]) -> None:
        """Answer each cancelled message as a turn would have, where the taint may not be told at its address.

        Which of them a turn had taken in is the model's choice by then (ADR 0021).
        """
        if not positions:
            return
        home = Address.parse(state.home)
        destination = await self.gate.readers.destination(home)
        if state.taint.flows_to(destination.clearance or PUBLIC):
            return
        standing = replace(await request.standing(state), home=home, destination=destination)
        spoken = self.gate.output.reply(standing, destination, constant(self.gate, standing), PUBLIC)
        row = decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=state.home)
        if spoken.decision.verdict in MAY_GO_ON:
            await self.audit.append((row,))
            for position in positions:
                key = f"stopped-{position}-notice"
                notice = NewDelivery(key, state.home, spoken.text, PUBLIC, OutboundKind.NOTICE, approved=OURS)
                await self.outbox.put(request.sid, notice)

    async def taint(self, request: CommandRequest, argument: str) -> Reply:
        """Show the taint, its sources and the readers here, or raise it on purpose."""
        words = argument.split()
        state = await request.state()
        if words[:1] == ["raise"] and len(words) == 2:  # noqa: PLR2004 - the word and the label
            return await self._raise(request, words[1])
        if words:
            raise UsageError("")
        readers = await self._readers(request)
        if state is None:
            return Reply("\n".join((f"Taint {PUBLIC}. {NOTHING_YET}", *readers)))
        raised = [event.body async for event in backwards(self.sessions, state) if isinstance(event.body, TaintRaised)]
        lines = [f"Taint {state.taint}.", *(f"- {one.before} → {one.after} by {one.cause}" for one in raised[:_CAUSES])]
        if len(raised) > _CAUSES:
            lines.append(f"And {len(raised) - _CAUSES} raises before these.")
        return Reply("\n".join((*lines, *readers)), state.visibility)

    async def _readers(self, request: CommandRequest) -> tuple[str, ...]:
        """Return the lines about the people who read here now, as far as the caller may learn of them."""
        everybody, gate = replace(request.address, recipient=""), self.gate
        audience, here = await gate.readers.audience(everybody), await gate.readers.destination(everybody)
        reader = (await request.standing(None)).reader
        return present_readers.lines(gate.document, audience, here, caller=request.caller, reader=reader)

    async def reset(self, request: CommandRequest, argument: str) -> Reply:
        """Tell the effect of a reset, or reset when confirmed."""
        if argument not in {"", "confirm"}:
            raise UsageError("")
        state = await request.state()
        if state is None:
            return Reply(NOTHING_YET)
        standing = await request.standing(state)
        if await request.in_shared_chat() and not at_least(request.caller.role, Role.ADMIN):
            raise CommandError("in a shared chat a reset needs the role admin")
        if state.rests:
            raise CommandError("this conversation rests, `/resume` lets it go on; reset it then")
        decision = self.gate.requests.reset(standing, confirmed=argument == "confirm")
        if decision.verdict is Verdict.REQUIRE_APPROVAL and not argument:
            return Reply(
                "This forgets the conversation and empties its workspace; nothing of it can be recalled. "
                f"Its taint {state.taint} becomes {PUBLIC}.\nType `/reset confirm` to do it.",
                state.visibility,
            )
        if decision.verdict is not Verdict.ALLOW:
            return Reply(request.explained(decision, standing, "/reset"), state.visibility)
        rows = (decision_row(standing, Hook.SESSION_RESET, decision), *await self._ended(request))
        agent, actor = await request.agents.pin(state.principal), request.caller.principal
        fresh = await self.sessions.reset(request.sid, op=self.ids.op(), actor=actor, audit=rows, agent=agent)
        # A turn that goes on could write nothing, and a new message would wait for it: that tells that it ran.
        self.interrupt(request.sid)
        # Its background sessions could report to no session, and their questions would be about forgotten things.
        await self.spawner.stop(state.principal, request.sid, request.typed, interrupt=self.interrupt)
        gone = await asyncio.to_thread(self.files.forget, request.sid, fresh.generation)
        # Observed texts are kept beside the first session of an address.
        for sid in self.session_ids.every(Address.parse(state.home)):
            await self.store.observed.forget(sid)
        told = BEGINS.format(fresh.taint)
        # That there are files is known to those alone who may know of the conversation before.
        return Reply(told) if gone else Reply(f"{told} {FILES_LEFT}", state.visibility)

    async def _ended(self, request: CommandRequest) -> tuple[AuditRow, ...]:
        """Return the audit rows of the grants that a reset ends."""
        every = await self.store.approvals.of(request.sid)
        live = (one.id for one in every if one.grant is not None and one.grant.ended_at(request.now) is None)
        actor, body = request.caller.principal, {"what": "ended", "why": "reset"}
        return tuple(AuditRow("grant", actor, {**body, "grant": name}) for name in live)

    async def leave(self, request: CommandRequest, argument: str) -> Reply:  # noqa: ARG002 - every command's signature
        """Answer where the line did not come from the console's own keyboard, which ends it by itself."""
        return Reply("Only a console can be left.")

    def _observed(self, request: CommandRequest) -> str:
        """Tell people that they are listened to, where they are."""
        here = request.address
        most = self.gate.document.observed(here.channel, here.workspace, here.chat)
        return f"\nobserved: messages here that are not for the bot, the last {most} of a day" if most else ""

    async def _receipt(self, request: CommandRequest, state: SessionState, name: str) -> Reply:
        reader = (await request.standing(state)).reader
        receipt = await receipts.look_up(self.store, state, name, reader)
        if receipt is None:
            # The absence of one tells of the messages sent from here, as much as its presence.
            return Reply(receipts.UNKNOWN, state.visibility)
        return Reply(json.dumps(receipt.told()), state.visibility.join(receipt.label))

    async def _raise(self, request: CommandRequest, text: str) -> Reply:
        """Raise the taint to a label: an event like any other, so that the fold of the log gives it."""
        wanted = label_named(self.gate.document, text)
        state = await request.state()
        if state is None:
            raise CommandError(NOTHING_YET, next_step="say something first")
        if wanted.flows_to(state.taint) and (state.taint.untrusted or not wanted.untrusted):
            return Reply(f"Taint {state.taint}, that is {wanted} or more already.", state.visibility)
        async with request.claimed(self.ids.owner()) as claim:
            return await self._raise_claimed(request, claim, wanted)

    async def _raise_claimed(self, request: CommandRequest, claim: Claim, wanted: Label) -> Reply:
        state = claim.state
        standing = await request.standing(state)
        decision = self.gate.requests.admit(standing, wanted, "").decision
        row = decision_row(standing, Hook.PRE_CONTEXT_INJECTION, decision, cause="/taint raise")
        allowed = decision.verdict is Verdict.ALLOW
        written = await self.sessions.record(
            claim,
            Write(
                op=self.ids.op(),
                cursor=state.seq,
                events=event_log.taint_raised(standing, wanted, "/taint raise") if allowed else (),
                audit=(row,),
                release=True,
            ),
        )
        if not allowed:
            return Reply(request.explained(decision, standing, "/taint raise"), state.visibility)
        return Reply(f"Taint {written.taint}.", state.visibility.join(written.taint))


def at_console(request: CommandRequest) -> bool:
    """Say whether a command was typed at the console."""
    return request.address.channel == principals.CONSOLE


def _nothing_more(argument: str) -> None:
    if argument:
        raise UsageError("")
