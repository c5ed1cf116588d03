"""What calls of tools with actions share: which parameters an action takes, and who calls at which label.

The type of a tool's arguments tells what each of them is. Which of them an action takes is told here, by their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from bot.access import labelling, principals
from bot.access.authorize import at_least
from bot.tools.base import Arguments, RefusedCallError, ToolContext
from policy.errors import LabelTextError
from policy.labels import Label
from policy.request import Role

_Action = TypeVar("_Action", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Takes:
    """The names of the parameters that an action needs, and of those that it may have."""

    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()


def check(tool: str, action: _Action, arguments: Arguments, takes: Mapping[_Action, Takes]) -> None:
    """Check that a call of a tool has what its action needs, and nothing that has no meaning for it.

    Raises RefusedCallError: naming these parameters.
    """
    given = {name for name in arguments.model_fields_set - {"action"} if getattr(arguments, name) is not None}
    missing = [name for name in takes[action].needs if name not in given]
    if missing:
        raise RefusedCallError(f"{tool} with action `{action.value}` needs {_named(missing)}")
    strange = sorted(given.difference(takes[action].needs, takes[action].may_have))
    if strange:
        raise RefusedCallError(f"{tool} with action `{action.value}` takes no {_named(strange)}")


def up_to(named: str | None, context: ToolContext) -> Label:
    """Return the label up to which a call finds something: the session's own, if none is named.

    The session comes to it whatever is found, so that what is not found tells no more than what is: in a shared chat
    what members worded makes it UNTRUSTED first.

    Raises RefusedCallError: what is named is no label.
    """
    if context.own_level:
        return context.session.taint
    if named is None:
        return heard(context, context.session.taint)
    return heard(context, label_named(context, named))


def label_named(context: ToolContext, named: str) -> Label:
    """Return the label that a call names. Raises RefusedCallError: it is none."""
    try:
        return labelling.named(context.document, named)
    except LabelTextError as error:
        raise RefusedCallError(str(error)) from None


def reader(context: ToolContext) -> Label:
    """Return the highest label that who makes a call may know of. People may know of UNTRUSTED things anywhere."""
    known = context.caller.reader
    return known if context.caller.by_model else labelling.untrusted(known)


def decides(context: ToolContext) -> bool:
    """Say whether who makes a call may change what others taught: in a shared chat admins may."""
    caller = context.caller
    return not principals.is_chat(caller.principal) or at_least(caller.role, Role.ADMIN)


def heard(context: ToolContext, label: Label) -> Label:
    """Return the label of what was learned as it is told: in a shared chat any member may have worded it."""
    return labelling.members_words(context.document, context.caller.principal, context.session.home, label)


def _named(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
