"""Who teaches what a call of the tools about knowledge says."""

from bot.knowledge.keeper import Learner
from bot.sessions.refs import CallRef
from bot.tools.base import ToolContext
from bot.tools.parameters import decides, reader


def learner(context: ToolContext) -> Learner:
    """Return who teaches what a call says: an agent in its turn, or a person by a command."""
    caller, session = context.caller, context.session
    return Learner(
        principal=caller.principal,
        asker=caller.asker,
        label=session.taint,
        reader=reader(context),
        decides=decides(context),
        # What is known to those who may not know of the session does not name it.
        sid=session.sid if session.turn and session.visibility.flows_to(session.taint) else "",
        by_agent=caller.by_model,
        authors=session.authors,
        refs=(CallRef(context.call, session.sid),) if context.call else (),
    )
