"""The present readers of an address in words, as far as a person who asks there may learn of them.

An admin, who sets clearances, is told each known reader's name, role and clearance, the latter as far as the answering
address is cleared for it (law `no_read_up`). All others are told numbers, and the clearance of all readers together,
which bounds the answers said there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bot.access.authorize import Caller, at_least
from channels.port import Audience
from policy import explain
from policy.document.entries import Principal
from policy.document.model import Document
from policy.labels import PUBLIC, Label
from policy.request import Destination, Role

ALONE: Final = "You alone read here, cleared for {clearance}."
UNKNOWN: Final = "The readers here are not known, so they are cleared for {clearance}."
TOGETHER: Final = "{many} here, together cleared for {clearance}: {kinds}."
UNLISTED: Final = "The platform does not list all of them."
MORE: Final = "And {many} more."

_NAMED: Final = 20
"""How many readers are named."""


@dataclass(frozen=True, slots=True)
class _Present:
    """The readers by kind: people who are known here by name, guests among them, and the number of unknown ones."""

    known: tuple[tuple[str, Principal], ...]
    unknown: int

    @property
    def guests(self) -> int:
        return sum(not at_least(person.role, Role.MEMBER) for _, person in self.known)

    @property
    def kinds(self) -> str:
        members = len(self.known) - self.guests
        counts = ((members, "known"), (self.guests, "guest" if self.guests == 1 else "guests"))
        told = [f"{number} {word}" for number, word in counts if number]
        # An account may stand for all of a kind, where a platform lists them no further.
        return ", ".join((*told, *([f"at least {self.unknown} unknown"] if self.unknown else ())))


def lines(
    document: Document, audience: Audience, here: Destination, *, caller: Caller, reader: Label
) -> tuple[str, ...]:
    """Return the lines about the readers of an address for a caller there.

    `here` is the address with its effective clearance, and `reader` the clearance of the answer.
    """
    clearance = explain.shown(here.clearance or PUBLIC, reader)
    if not audience.shared and audience.complete:
        return (ALONE.format(clearance=clearance),)
    present = _present(document, audience)
    number = len(present.known) + present.unknown
    if not number:
        return (UNKNOWN.format(clearance=clearance),)
    many = "1 person reads" if number == 1 else f"{number} people read"
    told = [TOGETHER.format(many=many, clearance=clearance, kinds=present.kinds)]
    if not audience.complete:
        told.append(UNLISTED)
    if at_least(caller.role, Role.ADMIN):
        told += _named(present, caller, reader)
    return tuple(told)


def _present(document: Document, audience: Audience) -> _Present:
    found = [document.principal(one.account) for one in audience.readers]
    # A person may be there with two accounts.
    people = dict(sorted((known for known in found if known is not None), key=lambda known: known[0]))
    return _Present(tuple(people.items()), found.count(None))


def _named(present: _Present, caller: Caller, reader: Label) -> Iterator[str]:
    for name, person in present.known[:_NAMED]:
        # Callers know their own clearance, as `/whoami` tells it.
        clearance = person.clearance if name == caller.principal else explain.shown(person.clearance, reader)
        yield f"- {name}, {person.role}, cleared for {clearance}"
    if len(present.known) > _NAMED:
        yield MORE.format(many=len(present.known) - _NAMED)
