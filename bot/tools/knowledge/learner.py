"""The learner in whose name a call of the knowledge tools teaches."""

from bot.access import labelling
from bot.knowledge.keeper import Learner
from bot.sessions.refs import CallRef
from bot.tools.base import ToolContext
from bot.tools.parameters import decides, reader


def learner(context: ToolContext) -> Learner:
    """Return the learner of a call: an agent in its turn, or a person by a command.

    After an endorsed value the label is UNTRUSTED: the session that recalls the words has not heard that value, so law
    `endorsed_cannot_steer` would not hold there.
    """
    caller, session = context.caller, context.session
    label = labelling.untrusted(session.taint) if session.endorsed else session.taint
    return Learner(
        principal=caller.principal,
        asker=caller.asker,
        label=label,
        reader=reader(context),
        decides=decides(context),
        # A memory that is visible to people who may not know of the session does not name it.
        sid=session.sid if session.turn and session.visibility.flows_to(session.taint) else "",
        by_agent=caller.by_model,
        authors=session.authors,
        refs=(CallRef(context.call, session.sid),) if context.call else (),
    )
