"""The actor of a workflow call, and the labels with which the call writes, reads and tells."""

from dataclasses import dataclass

from bot.access.approvals import decides_for
from bot.sessions.refs import CallRef
from bot.tools.base import ToolContext
from bot.tools.parameters import heard, label_named, reader, up_to
from bot.workflows.views import WorkflowActor
from policy.document.programs import is_program
from policy.labels import PUBLIC, Label


@dataclass(frozen=True, slots=True)
class CallLevel:
    """The labels of a call."""

    reader: Label
    """The highest label that the call sees."""
    written: Label
    """The label of everything that it writes and tells."""


def answer_label(context: ToolContext) -> Label:
    """Return the label of a person's answer to the call's question; PUBLIC without one."""
    answer = None if context.asked is None else context.asked.answer
    return PUBLIC if answer is None else answer.label


def session_level(context: ToolContext, named: str | None = None) -> CallLevel:
    """Return the level of an agent's call: it sees what its session may, and writes with just that.

    The question told the person of the data read before, so the answer raises both.

    Raises RefusedCallError: `named` is not a label.
    """
    label = up_to(named, context).join(answer_label(context))
    return CallLevel(label, label)


def person_level(context: ToolContext, found: Label = PUBLIC, named: str | None = None) -> CallLevel:
    """Return the level of a person's call, or a program's, that depends on a `found` label.

    They see as much as they may know at their address, and with a named label no more than that.

    Raises RefusedCallError: `named` is not a label.
    """
    known = reader(context) if named is None else reader(context).meet(label_named(context, named))
    return CallLevel(known, context.session.taint.join(heard(context, found)))


def actor(context: ToolContext, level: CallLevel) -> WorkflowActor:
    """Return the actor as the keeper of workflows knows them; a program is not a person."""
    caller, session = context.caller, context.session
    # An entry that is visible to people who may not know of the session does not name it.
    known = bool(session.turn) and session.visibility.flows_to(level.written)
    return WorkflowActor(
        principal=caller.principal,
        asker=caller.asker,
        label=level.written,
        reader=level.reader,
        sid=session.sid if known else "",
        by_agent=caller.by_model or is_program(caller.asker),
        agent=session.agent.name if caller.by_model and session.agent is not None else "",
        refs=(CallRef(context.call, session.sid),) if known and context.call else (),
    )


def may_pass(context: ToolContext) -> bool:
    """Say whether the person of a turn may be asked to pass a gate."""
    caller, session = context.caller, context.session
    if not session.turn or is_program(caller.asker):
        return False
    return decides_for(context.document, caller.principal, caller.asker)
