"""The learner in whose name a call of the knowledge tools teaches, and the label of the taught words."""

from bot.access import labelling
from bot.knowledge.keeper import Learner
from bot.sessions.refs import CallRef
from bot.tools.base import ToolContext
from bot.tools.parameters import decides, reader
from policy.labels import Label


def taught(context: ToolContext) -> Label:
    """Return the label of the words that a call teaches: the session's taint, UNTRUSTED after an endorsed value.

    The session that recalls the words has not heard that value, so law `endorsed_cannot_steer` would not hold there.
    """
    taint = context.session.taint
    return labelling.untrusted(taint) if context.session.endorsed else taint


def learner(context: ToolContext) -> Learner:
    """Return the learner of a call: an agent in its turn, or a person by a command."""
    caller, session = context.caller, context.session
    return Learner(
        principal=caller.principal,
        asker=caller.asker,
        label=taught(context),
        reader=reader(context),
        decides=decides(context),
        # A memory that is visible to people who may not know of the session does not name it.
        sid=session.sid if session.turn and session.visibility.flows_to(session.taint) else "",
        by_agent=caller.by_model,
        authors=session.authors,
        refs=(CallRef(context.call, session.sid),) if context.call else (),
    )
