"""Where a call leads: everything that it reads, uses and reaches, without the words that it says.

The texts behind a call's references may change its words alone, so where it leads is compared with and without them.
"""

from dataclasses import replace
from typing import Final

from bot.access import labelling
from bot.tools.arguments import checked
from bot.tools.base import CallFacts, RefusedCallError, Tool, ToolContext
from bot.tools.references import Asked
from policy.document.model import Document
from policy.request import Destination

ELSEWHERE: Final = "a reference may stand for a text, not for its recipient"


def check_route(tool: Tool, taken: Asked, context: ToolContext) -> None:
    """Check that the texts behind a call's references change only its words, and no target of a read or a send.

    Raises RefusedCallError: they change such a target, or a held list has no entry at a place.
    """
    forms = (checked(tool, given) for given in (taken.opened(), taken.whole()))
    if len({reaches(unlisted(tool.declare(one, context), taken)) for one in forms}) > 1:
        raise RefusedCallError(ELSEWHERE)


def unlisted(declared: CallFacts, taken: Asked) -> CallFacts:
    """Return the facts of a call without a listed identifier, if it refers to an item: that may be the identifier."""
    return replace(declared, identifier="") if taken.refers or taken.entries else declared


def reaches(declared: CallFacts) -> CallFacts:
    """Return everything that a call reads, uses and leads to, without the words it says."""
    return replace(declared, says=None if declared.says is None else (declared.says[0], ""))


def expected(document: Document, declared: CallFacts) -> Destination | None:
    """Return the destination that a call leads to, as far as it is known beforehand, None for none."""
    leads = declared.tells if declared.says is None else declared.says[0]
    return None if leads is None else labelling.expected(document, leads)
