"""Commands about the session itself: who asks, its status, its taint, stopping and starting anew."""

import asyncio
import json
from dataclasses import replace
from typing import Final

from bot.access import labelling, principals
from bot.access.authorize import at_least
from bot.commands.base import CommandContext, CommandError, Reply, UsageError, label_named
from bot.commands.places import NOT_CLASSIFIED
from bot.commands.usage import described
from bot.core.clock import moment
from bot.delegation import receipts
from bot.delivery import undelivered
from bot.gate.results import MAY_GO_ON, decision_row
from bot.history import event_log
from bot.sessions.deliveries import OURS, NewDelivery
from bot.sessions.events import Event, EventType
from bot.sessions.models import Claim, SessionState, Write
from bot.sessions.transcript import backwards
from bot.tools.sessions import describe
from bot.worker.finish import constant
from channels.messages import Address, OutboundKind
from policy.decision import Verdict
from policy.document.overrides import ChatPlace
from policy.labels import PUBLIC, Label
from policy.request import Hook, Role

NOTHING_YET: Final = "this conversation has not begun, it has read nothing"

NOTHING_RUNS: Final = "there is nothing to stop here; its background sessions are stopped, if there are any"
STOPPED: Final = "whatever ran here is stopped, and whatever it spawned"
"""The answer where nobody may know whether anything ran."""

_LOOKED_BACK: Final = 1000
_CAUSES: Final = 5


async def whoami(context: CommandContext, argument: str) -> Reply:
    """Tell the caller's principal, role and clearance, and what may be said here."""
    _nothing_more(argument)
    here = context.address
    everybody = (await context.gate.readers.destination(replace(here, recipient=""))).clearance or PUBLIC
    alone = (await context.gate.readers.destination(here)).clearance or PUBLIC
    cleared = f"cleared for {everybody}"
    if await context.in_shared_chat() and _nobody_classified(context):
        cleared = NOT_CLASSIFIED
    told = f"; what you alone are told here may be {alone} at most" if here.recipient else ""
    return Reply(
        f"you are {context.caller.principal}, {context.caller.role}, cleared for {context.caller.clearance}\n"
        f"here is {ChatPlace(here.channel, here.workspace, here.chat)}, {cleared}{told}"
    )


def _nobody_classified(context: CommandContext) -> bool:
    document, here = context.gate.document, context.address
    chat = document.chat(here.channel, here.workspace, here.chat)
    return chat is None and labelling.classification(document, replace(here, recipient="")) is None


async def status(context: CommandContext, argument: str) -> Reply:
    """Tell the session's record, or what became of something that was sent from here to another session."""
    if len(argument.split()) > 1:
        raise UsageError("")
    state, observed = await context.state(), _observed(context)
    if state is None:
        return Reply(f"{NOTHING_YET}{observed}")
    if argument:
        return await _receipt(context, state, argument)
    record = describe(state, context.caller.clearance)
    last = state.last_turn
    length = state.seq - state.generation_seq + 1
    missed, label = await _undelivered(context, state)
    ended = "none" if last is None else f"{last.reason} ({last.error})" if last.error else str(last.reason)
    return Reply(
        f"session {state.sid} of {state.principal} on {record['channel']}\n"
        f"status {state.status}, taint {state.taint}, clearance {context.caller.clearance}\n"
        f"waiting {state.waiting_items}, log {length} events, generation {state.generation}\n"
        f"last turn {ended}\n"
        f"usage {described(state.usage)}{await _recap(context, state)}{observed}{missed}",
        state.visibility.join(label),
    )


async def _undelivered(context: CommandContext, state: SessionState) -> tuple[str, Label]:
    """Return what is told the caller of what did not reach them, each line anew, with the label of that."""
    if not state.unsaid:
        return "", PUBLIC
    every, reader = await context.store.outbox.deliveries(state.sid), (await context.standing(None)).reader
    return undelivered.lines(
        every, state.generation, home=Address.parse(state.home), person=context.caller.principal, reader=reader
    )


async def _recap(context: CommandContext, state: SessionState) -> str:
    """Return a line about the newest recap that may stand for what was said before it, empty if there is none.

    Where the context does not begin with one, no further back than `_LOOKED_BACK` events.
    """
    least = state.context_seq if state.context_seq > state.generation_seq else state.seq - _LOOKED_BACK
    async for event in backwards(context.store.sessions, state):
        if event.seq < least:
            break
        if event.type is EventType.SUMMARY and not event.body["topic"]:
            count = event.body.get("messages", 0)
            return f"\nrecap of {moment(event.ts)} UTC, {count} messages summarized"
    return ""


async def stop(context: CommandContext, argument: str) -> Reply:
    """Stop the running turn and cancel what waits."""
    _nothing_more(argument)
    reader = (await context.standing(None)).reader
    stopped = await context.store.sessions.stop(context.sid, actor=context.caller.principal, reader=reader)
    # A turn in another process learns of it when it next writes or renews its lease.
    context.interrupt(context.sid)
    # Whether there were any is not told: they may be above what may be known here.
    state = await context.state()
    whose = context.caller.principal if state is None else state.principal
    await context.spawner.stop(whose, context.sid, context.typed, interrupt=context.interrupt)
    if state is not None:
        await _answer(context, state, stopped.unanswered)
    if await context.above(state):
        # Neither is whether a session above those who read here was running, nor how many messages it had taken in.
        return Reply(STOPPED)
    if not stopped.running and not stopped.cancelled:
        return Reply(NOTHING_RUNS)
    many = f"{stopped.cancelled} waiting {'message' if stopped.cancelled == 1 else 'messages'} cancelled"
    told = "stopping" if stopped.running else "nothing was running"
    return Reply(f"{told}, {many}" if stopped.cancelled else told)


async def _answer(context: CommandContext, state: SessionState, positions: tuple[int, ...]) -> None:
    """Answer each message that was cancelled as a turn would have, where what was read may not be told at its address.

    Which of them a turn had taken in is the model's choice by then (ADR 0021).
    """
    if not positions:
        return
    home = Address.parse(state.home)
    destination = await context.gate.readers.destination(home)
    if state.taint.flows_to(destination.clearance or PUBLIC):
        return
    standing = replace(await context.standing(state), home=home, destination=destination)
    spoken = context.gate.output.reply(standing, destination, constant(context.gate, standing), PUBLIC)
    row = decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=state.home)
    if spoken.decision.verdict in MAY_GO_ON:
        await context.store.audit.append((row,))
        for position in positions:
            key = f"stopped-{position}-notice"
            notice = NewDelivery(key, state.home, spoken.text, PUBLIC, OutboundKind.NOTICE, approved=OURS)
            await context.store.outbox.put(context.sid, notice)


async def taint(context: CommandContext, argument: str) -> Reply:
    """Show the taint and what raised it, or raise it on purpose."""
    words = argument.split()
    state = await context.state()
    if words[:1] == ["raise"] and len(words) == 2:  # noqa: PLR2004 - the word and the label
        return await _raise(context, words[1])
    if words:
        raise UsageError("")
    if state is None:
        return Reply(f"taint {PUBLIC}: {NOTHING_YET}")
    causes = [event async for event in backwards(context.store.sessions, state) if event.type is EventType.TAINT_RAISED]
    lines = [f"taint {state.taint}", *(_cause(event) for event in causes[:_CAUSES])]
    if len(causes) > _CAUSES:
        lines.append(f"and {len(causes) - _CAUSES} raises before these")
    return Reply("\n".join(lines), state.visibility)


async def reset(context: CommandContext, argument: str) -> Reply:
    """Say what a reset would do, or do it when confirmed."""
    if argument not in {"", "confirm"}:
        raise UsageError("")
    state = await context.state()
    if state is None:
        return Reply(NOTHING_YET)
    standing = await context.standing(state)
    if await context.in_shared_chat() and not at_least(context.caller.role, Role.ADMIN):
        raise CommandError("in a shared chat a reset needs the role admin")
    decision = context.gate.requests.reset(standing, confirmed=argument == "confirm")
    if decision.verdict is Verdict.REQUIRE_APPROVAL and not argument:
        return Reply(
            f"this forgets the conversation and empties its workspace, and its taint {state.taint} "
            f"becomes {PUBLIC}; nothing of it can be recalled\ntype `/reset confirm` to do it",
            state.visibility,
        )
    if decision.verdict is not Verdict.ALLOW:
        return Reply(context.explained(decision, standing, "/reset"), state.visibility)
    row = decision_row(standing, Hook.SESSION_RESET, decision)
    fresh = await context.store.sessions.reset(
        context.sid, op=context.ids.op(), actor=context.caller.principal, audit=(row,)
    )
    # A turn that goes on could write nothing any more, and what comes now would wait for it: that tells that it ran.
    context.interrupt(context.sid)
    # What it spawned could report to nobody, and its questions would be about what is forgotten.
    await context.spawner.stop(state.principal, context.sid, context.typed, interrupt=context.interrupt)
    await asyncio.to_thread(context.files.forget, context.sid, fresh.generation)
    return Reply(f"a new conversation begins, taint {fresh.taint}")


def at_console(context: CommandContext) -> bool:
    """Say whether a command was typed at the console."""
    return context.address.channel == principals.CONSOLE


async def leave(context: CommandContext, argument: str) -> Reply:  # noqa: ARG001 - every command's signature
    """Answer where the line did not come from the console's own keyboard, which ends it by itself."""
    return Reply("only a console can be left")


def _observed(context: CommandContext) -> str:
    """Tell people that they are listened to, where they are."""
    here = context.address
    most = context.gate.document.observed(here.channel, here.workspace, here.chat)
    return f"\nobserved: what is said here and not to the bot, the last {most} texts of a day" if most else ""


async def _receipt(context: CommandContext, state: SessionState, name: str) -> Reply:
    reader = (await context.standing(state)).reader
    receipt = await receipts.look_up(context.store, state, name, reader)
    if receipt is None:
        # That there is none tells of what was sent from here, as much as that there is one.
        return Reply(receipts.UNKNOWN, state.visibility)
    return Reply(json.dumps(receipt.told()), state.visibility.join(receipt.label))


def _nothing_more(argument: str) -> None:
    if argument:
        raise UsageError("")


def _cause(event: Event) -> str:
    before, after, cause = (event.body.get(key, "?") for key in ("before", "after", "cause"))
    return f"- {before} → {after} by {cause}"


async def _raise(context: CommandContext, text: str) -> Reply:
    """Raise the taint to a label: an event like any other, so that the fold of the log gives it."""
    wanted = label_named(context, text)
    state = await context.state()
    if state is None:
        raise CommandError(f"{NOTHING_YET}, so there is nothing to raise yet")
    if wanted.flows_to(state.taint) and (state.taint.untrusted or not wanted.untrusted):
        return Reply(f"taint {state.taint}, that is {wanted} or more already", state.visibility)
    async with context.claimed() as claim:
        return await _raise_claimed(context, claim, wanted)


async def _raise_claimed(context: CommandContext, claim: Claim, wanted: Label) -> Reply:
    state = claim.state
    standing = await context.standing(state)
    decision = context.gate.requests.admit(standing, wanted, "").decision
    row = decision_row(standing, Hook.PRE_CONTEXT_INJECTION, decision, cause="/taint raise")
    allowed = decision.verdict is Verdict.ALLOW
    written = await context.store.sessions.record(
        claim,
        Write(
            op=context.ids.op(),
            cursor=state.seq,
            events=event_log.taint_raised(standing, wanted, "/taint raise") if allowed else (),
            audit=(row,),
            release=True,
        ),
    )
    if not allowed:
        return Reply(context.explained(decision, standing, "/taint raise"), state.visibility)
    return Reply(f"taint {written.taint}", state.visibility.join(written.taint))
