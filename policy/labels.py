"""Labels: the confidentiality and integrity of data, and the clearances of readers and sinks.

A label is (level, compartments, integrity). Labels form a lattice: `join` is the label of a mixture of two things,
`meet` the clearance that two readers share. Clearances are labels too: the highest label a principal, audience, sink or
model provider may receive. This module knows no rule and no session.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce

from policy.errors import LabelTextError, nearest

COMPARTMENT = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_TEXT = re.compile(r"([A-Z]+)(?:\{([^{}]*)\})?(~?)\Z")


class Level(IntEnum):
    """How confidential: a total order."""

    PUBLIC = 0
    INTERNAL = 1
    CONFIDENTIAL = 2
    RESTRICTED = 3


class Integrity(IntEnum):
    """Whether an attacker may have written it; UNTRUSTED is the higher element, as mixing keeps it."""

    TRUSTED = 0
    UNTRUSTED = 1


# Bound once: looking a member up on its class takes five times as long as comparing with it.
_UNTRUSTED = Integrity.UNTRUSTED


@dataclass(frozen=True, slots=True)
class Label:
    """One element of the lattice.

    `level` and `compartments` decide who may read the data, `integrity` whether it may command.
    """

    level: Level
    compartments: frozenset[str] = frozenset()
    integrity: Integrity = Integrity.TRUSTED

    def join(self, other: "Label") -> "Label":
        """Return the label of a mixture: the higher level, all compartments, UNTRUSTED if either is."""
        if other.flows_to(self) and other.integrity <= self.integrity:
            return self
        return Label(
            max(self.level, other.level),
            self.compartments | other.compartments,
            max(self.integrity, other.integrity),
        )

    def meet(self, other: "Label") -> "Label":
        """Return the clearance that two clearances share."""
        if self.flows_to(other) and self.integrity <= other.integrity:
            return self
        return Label(
            min(self.level, other.level),
            self.compartments & other.compartments,
            min(self.integrity, other.integrity),
        )

    def flows_to(self, clearance: "Label", *, demand_trusted: bool = False) -> bool:
        """Say whether data so labelled may reach a place with this clearance.

        With `demand_trusted` the place also refuses UNTRUSTED data. Integrity otherwise never
        stops a flow: law `untrusted_cannot_command` deals with it.
        """
        return (
            self.level <= clearance.level
            and self.compartments <= clearance.compartments
            and not (demand_trusted and self.integrity is _UNTRUSTED)
        )

    def within(self, taint: "Label") -> bool:
        """Say whether data so labelled adds nothing to a taint: the order of the lattice.

        A fact that decides whether something is found, counted or told apart must be within the taint of the asking
        session, since a missing result tells something too.
        """
        return self.integrity <= taint.integrity and self.flows_to(taint)

    @property
    def secrecy(self) -> "Label":
        """The same level and compartments, TRUSTED: the confidentiality alone, without the integrity."""
        return Label(self.level, self.compartments) if self.untrusted else self

    @property
    def untrusted(self) -> bool:
        """Whether an attacker may have written it."""
        return self.integrity is _UNTRUSTED

    def __str__(self) -> str:
        inside = f"{{{','.join(sorted(self.compartments))}}}" if self.compartments else ""
        return f"{self.level.name}{inside}{'~' if self.untrusted else ''}"


PUBLIC = Label(Level.PUBLIC)


def top(compartments: Iterable[str]) -> Label:
    """Return the highest label for a configuration's compartments: the worst data, the widest clearance."""
    return Label(Level.RESTRICTED, frozenset(compartments), Integrity.UNTRUSTED)


def join_all(labels: Iterable[Label], start: Label = PUBLIC) -> Label:
    """Return the join of all labels, `start` if there are none."""
    return reduce(Label.join, labels, start)


def parse_level(text: str) -> Level:
    """Read a level's name, exactly as written in the vocabulary.

    Raises LabelTextError: for any other word, naming the nearest level.
    """
    try:
        return Level[text]
    except KeyError:
        raise LabelTextError(f"unknown level `{text}`{nearest(text, Level.__members__, ranked=True)}") from None


def parse(text: str) -> Label:
    """Read the text form, `CONFIDENTIAL{acme,hr}` with `~` appended when UNTRUSTED.

    For configuration, the store and a person's typing only; never for content (law
    `labels_are_never_parsed_from_content`).

    Raises LabelTextError: if the text is not a label.
    """
    match = _TEXT.match(text)
    if match is None:
        raise LabelTextError(f"`{text}` is not a label, write one as `CONFIDENTIAL{{acme,hr}}` with `~` for UNTRUSTED")
    level, inside, tilde = match.groups()
    names = inside.split(",") if inside else []
    for name in names:
        if not COMPARTMENT.match(name):
            raise LabelTextError(f"`{name}` is not a compartment, use lower-case letters, digits, `_` and `-`")
    return Label(parse_level(level), frozenset(names), Integrity.UNTRUSTED if tilde else Integrity.TRUSTED)
