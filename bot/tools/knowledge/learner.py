"""The learner in whose name a call of the knowledge tools teaches."""

from bot.knowledge.keeper import Learner
from bot.sessions.refs import CallRef
from bot.tools.base import ToolContext
from bot.tools.parameters import decides, reader


def learner(context: ToolContext) -> Learner:
    """Return the learner of a call: an agent in its turn, or a person by a command."""
    caller, session = context.caller, context.session
    return Learner(
        principal=caller.principal,
        asker=caller.asker,
        label=session.taint,
        reader=reader(context),
        decides=decides(context),
        # A memory that is visible to people who may not know of the session does not name it.
        sid=session.sid if session.turn and session.visibility.flows_to(session.taint) else "",
        by_agent=caller.by_model,
        authors=session.authors,
        refs=(CallRef(context.call, session.sid),) if context.call else (),
    )
