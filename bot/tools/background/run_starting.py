"""`runs_start`: begin a run, which goes on by itself until its goal is reached.

An agent's call needs a person's approval at any taint of its session: a run acts when no person watches any more. A
person's own command is their own word. The gate makes the run (`ToolServices.start_run`); it begins with the label of
the call.
"""

import json
from typing import Final

from pydantic import Field

from bot.access import labelling, recipients
from bot.core.errors import RequestError
from bot.sessions.background.run_states import RunType
from bot.sessions.background.runs import RunWish
from bot.sessions.refs import EventsRef
from bot.tools.background.runs import OWN_SLOT, RESERVED, Slot
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
from bot.tools.message import recipient
from policy.labels import PUBLIC
from policy.request import Effect

START_RUN: Final = "runs_start"

LONGEST_HOURS: Final = 24 * 30


class StartArguments(Arguments):
    """Arguments of `runs_start`."""

    goal: Content = Field(min_length=1, max_length=40_000, description="its goal, with all it needs to know")
    type: RunType = Field(default=RunType.AUTONOMOUS, description="`manual` waits for messages")
    title: str = Field(default="", max_length=200)
    slot: Slot | None = Field(default=None, description="one run at a time has a slot, such as `nightly`")
    hours: int | None = Field(default=None, ge=1, le=LONGEST_HOURS, description="at most; cut to the configured limit")
    deliver_to: Recipient = Field(
        default="", max_length=128, description="a recipient who is told its last answer, as `message` names them"
    )


class RunsStart:
    """Begin a run with a goal; people hear when it ends."""

    name = START_RUN
    description = "Begin a run that works on a goal by itself, turn after turn. A person is asked first."
    effect = Effect.WRITE
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = StartArguments

    def declare(self, arguments: StartArguments, context: ToolContext) -> CallFacts:
        """Declare the run as the sink: it may know everything that its principal may."""
        if (arguments.slot or "").startswith(OWN_SLOT):
            raise RefusedCallError(RESERVED)
        return standing_work(context, arguments.deliver_to)

    async def run(self, arguments: StartArguments, context: ToolContext, services: ToolServices) -> Result:
        """Have the run made; every refusal is one constant sentence."""
        to = arguments.deliver_to
        wish = RunWish(
            arguments.goal,
            type=arguments.type,
            title=arguments.title,
            slot=arguments.slot or "",
            hours=arguments.hours or 0,
            deliver_to=to,
            meant=recipients.meaning(context.document, recipient(context, to)) if to else "",
        )
        try:
            made = await services.start_run(wish)
        except RequestError as error:
            return Result(str(error), failed=True)
        told = {"run_id": made.run, "session_id": made.sid, "deadline": made.deadline, "status": "accepted"}
        return Result(json.dumps(told), refs=(EventsRef(1, 1, made.sid),))


def standing_work(context: ToolContext, deliver_to: str) -> CallFacts:
    """Declare a call that begins work which goes on after its turn, and that may send a recipient its result later.

    In a turn it is a model's word, so people are asked, and it is consequential. A person's command is their own word;
    it is consequential all the same if another recipient than the session's principal gets the result. A text that an
    attacker may have written is consequential too, from any caller.
    """
    own = bool(context.session.turn)
    doubtful = own or context.session.taint.untrusted
    if not deliver_to:
        return CallFacts(clearance=context.caller.ceiling, consequential=doubtful, once=True, asks=own)
    to = recipient(context, deliver_to)
    others = not recipients.stays(context.document, context.caller, context.session.home, to)
    known = labelling.expected(context.document, to).clearance or PUBLIC
    clearance = context.caller.ceiling.meet(known)
    return CallFacts(clearance=clearance, consequential=doubtful or others, tells=to, once=True, asks=own)
