"""The common part of tools with actions: the parameters of each action, and the caller with their label.

The type of a tool's arguments describes each of them. This module lists the parameters of each action, by their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from bot.access import labelling, principals
from bot.access.authorize import at_least
from bot.tools.base import Arguments, RefusedCallError, ToolContext
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label
from policy.request import Role

UP_TO: Final = "a label such as CONFIDENTIAL, to which this conversation is raised first"
"""The description of the argument `up_to` by which a call raises its session."""

_Action = TypeVar("_Action", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Takes:
    """The names of the parameters that an action needs, and of those that it may have."""

    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()


def check(tool: str, action: _Action, arguments: Arguments, takes: Mapping[_Action, Takes]) -> None:
    """Check that a call of a tool has all parameters that its action needs, and no others.

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

    The session is raised to it even if nothing is found, so that a missing item tells no more than a found one. In a
    shared chat, members' words make the session UNTRUSTED first.

    Raises RefusedCallError: `named` is not a label.
    """
    if context.own_level:
        return context.session.taint
    if named is None:
        return heard(context, context.session.taint)
    return heard(context, label_named(context, named))


def raised(named: str | None, context: ToolContext) -> Label:
    """Return the label that a call raises its session to, PUBLIC where it names none.

    Raises RefusedCallError: `named` is not a label, or has an integrity: no call makes its session UNTRUSTED by a wish.
    """
    if named is None:
        return PUBLIC
    label = label_named(context, named)
    if label.untrusted:
        raise RefusedCallError("`up_to` names a level and compartments; leave out `~`")
    return label


def label_named(context: ToolContext, named: str) -> Label:
    """Return the label that a call names. Raises RefusedCallError: it is not a label."""
    try:
        return labelling.named(context.document, named)
    except LabelTextError as error:
        raise RefusedCallError(str(error)) from None


def reader(context: ToolContext) -> Label:
    """Return the highest label that who makes a call may know of. People may know of UNTRUSTED things anywhere."""
    known = context.caller.reader
    return known if context.caller.by_model else labelling.untrusted(known)


def decides(context: ToolContext) -> bool:
    """Say whether the maker of a call may change other people's knowledge: in a shared chat admins may."""
    caller = context.caller
    return not principals.is_chat(caller.principal) or at_least(caller.role, Role.ADMIN)


def heard(context: ToolContext, label: Label) -> Label:
    """Return the label of a learned text in an answer: in a shared chat any member may have worded it."""
    return labelling.members_words(context.document, context.caller.principal, context.session.home, label)


def _named(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
