"""`runs_start`: begin a run, which goes on by itself until its goal is reached.

An agent's call needs a person's approval, whatever its session has read: a run acts when nobody looks any more. What a
person types is their own word. The gate makes the run (`ToolServices.start_run`); it begins with the label of what asks
for it.
"""

import json
from typing import Final

from pydantic import Field

from bot.access import labelling, recipients
from bot.core.errors import RequestError
from bot.sessions.background.runs import RunType, RunWish
from bot.sessions.refs import EventsRef
from bot.tools.background.runs import OWN_SLOT, RESERVED, Slot
from bot.tools.base import Arguments, CallFacts, Content, RefusedCallError, Result, ToolContext, ToolServices
from bot.tools.message import recipient
from policy.labels import PUBLIC
from policy.request import Effect

START_RUN: Final = "runs_start"

LONGEST_HOURS: Final = 24 * 30


class StartArguments(Arguments):
    """Arguments of `runs_start`."""

    goal: Content = Field(min_length=1, max_length=40_000, description="what it is to reach, with all it needs to know")
    type: RunType = Field(default=RunType.AUTONOMOUS, description="`manual` waits for what it is told")
    title: str = Field(default="", max_length=200)
    slot: Slot | None = Field(default=None, description="one run at a time has a slot, such as `nightly`")
    hours: int | None = Field(default=None, ge=1, le=LONGEST_HOURS, description="at most; cut to what is configured")
    deliver_to: str = Field(
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
        """Declare the run as the sink: it may know what its principal may."""
        if (arguments.slot or "").startswith(OWN_SLOT):
            raise RefusedCallError(RESERVED)
        return standing_work(context, arguments.deliver_to)

    async def run(self, arguments: StartArguments, context: ToolContext, services: ToolServices) -> Result:
        """Have it made; what is not to be had is one constant sentence."""
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
    """Declare a call that begins work which goes on after its turn, and that may tell a recipient of it later.

    In a turn it is a model's word, so people are asked, and it is consequential. A person's command is their own word;
    to have somebody else told than whom the session acts for is consequential all the same. So is what an attacker may
    have written, whoever says it.
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
