"""`sessions_send`: hand something over to another session of the same person."""

import json
from typing import Final

from pydantic import Field

from bot.core.errors import RequestError
from bot.core.ids import receipt_id
from bot.delegation.receipts import DeliveryReceipt
from bot.delegation.spawn import next_hop
from bot.sessions.background.delegation import SESSION
from bot.sessions.deliveries import NewDelivery
from bot.sessions.models import SessionState, Status
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.visibility import look
from bot.tools.base import (
    Arguments,
    CallFacts,
    Content,
    Recipient,
    RefusedCallError,
    Result,
    ToolContext,
    ToolServices,
)
from bot.tools.sessions import NONE
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC
from policy.request import Effect

PARENT: Final = "parent"
OVER: Final = "that session has ended, nothing can be sent to it"
FIELDS_ONLY: Final = "this session tells other sessions nothing but the fields it was given to answer with"
ABOVE_TARGET: Final = "a person: the text is above the taint of that session, so it is held until they let it in"
UNLESS_PARENT_ROSE: Final = "the parent: the text is held unless that session has read as much by then"
UNTRUSTED_TARGET: Final = "the target: it read something UNTRUSTED, so only the call itself tells how it stands"
ITSELF: Final = "a session does not send to itself"


class SendArguments(Arguments):
    """Arguments of `sessions_send`."""

    session_id: Recipient = Field(min_length=1, max_length=128, description="a session of yours, or `parent`")
    content: Content = Field(min_length=1, max_length=40_000)


class SessionsSend:
    """Send a text to another session, which hears it as a message that is not its user's."""

    name = "sessions_send"
    description = "Send a text to another session of yours, or to `parent` from a background session."
    effect = Effect.SEND
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = SendArguments

    def __init__(self, sessions: SessionStore) -> None:
        self._sessions = sessions

    def declare(self, arguments: SendArguments, context: ToolContext) -> CallFacts:
        """Declare the other session as the sink: it may know everything that its principal may.

        Its taint when the text arrives decides whether the text is let in or held.
        """
        caller, session = context.caller, context.session
        if arguments.session_id == PARENT:
            if session.home.channel != SESSION or not session.turn:
                raise RefusedCallError("this session has no parent")
            return CallFacts(clearance=caller.ceiling, says=(session.home, arguments.content), once=True)
        there = Address(SESSION, arguments.session_id, caller.principal)
        return CallFacts(result=session.taint, clearance=caller.ceiling, says=(there, arguments.content), once=True)

    async def foresee(self, arguments: SendArguments, context: ToolContext) -> list[str]:
        """Foresee whether the text would be let in now; a target that may not be known counts as absent.

        For an UNTRUSTED target a TRUSTED session gets a constant, since a simulation does not make it UNTRUSTED.
        """
        caller, session = context.caller, context.session
        if arguments.session_id == PARENT:
            own = await self._sessions.state(session.sid)
            lets_in = own is not None and session.taint.flows_to(own.creation)
            return [] if lets_in else [UNLESS_PARENT_ROSE]
        target, label = await look(self._sessions, arguments.session_id, caller.principal, caller.reader)
        if label.untrusted and not session.taint.untrusted:
            return [UNTRUSTED_TARGET]
        why = _refusal(target, session.sid)
        if target is None or why:
            return [f"the target: {why}"]
        return [] if session.taint.flows_to(target.taint) else [ABOVE_TARGET]

    async def run(self, arguments: SendArguments, context: ToolContext, services: ToolServices) -> Result:
        """Hand the text to the outbox; absent, another's and too high are one answer.

        The answer's facts about the target are as trusted as the target, even that it is absent.
        """
        caller, session = context.caller, context.session
        own = await self._sessions.state(session.sid)
        if own is None:
            return Result(NONE, session.taint, failed=True)
        if own.lineage is not None and own.lineage.returns:
            return Result(FIELDS_ONLY, session.taint, failed=True)
        try:
            hops = next_hop(own, session.turn)
        except RequestError as error:
            return Result(str(error), session.taint, failed=True)
        address, known = session.home, PUBLIC
        if arguments.session_id != PARENT:
            target, told = await look(self._sessions, arguments.session_id, caller.principal, caller.reader)
            known = session.taint.join(told)
            if not services.permits(known):
                return Result(NONE, session.taint, failed=True)
            why = _refusal(target, session.sid)
            if target is None or why:
                return Result(why, known, failed=True)
            address = Address(SESSION, target.sid, caller.principal, str(target.generation))
        delivery = NewDelivery(
            context.key, str(address), arguments.content, session.taint, OutboundKind.MESSAGE, session.turn, hops=hops
        )
        return Result(json.dumps(DeliveryReceipt(receipt_id(delivery.key)).told()), known, deliver=(delivery,))


def _refusal(target: SessionState | None, sender: str) -> str:
    """Return why nothing can be sent to a session, empty if it can."""
    if target is None:
        return NONE
    if target.sid == sender:
        return ITSELF
    return OVER if target.ended_at or target.status is Status.ARCHIVED else ""
