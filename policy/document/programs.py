"""Programs that use the HTTP API, as principals of the policy in force.

A program is let in by a token, and is kept in the store as people who are let in are. It has one account, `api:<name>`,
that no person has: the file may not name an account of that channel, and no person is paired with one. Its principal is
called `program:<name>`, and no configured name has a colon. So neither a person nor a chat is ever taken for it.

A program that the file no longer fits is unknown: its clearance names an unknown compartment, the file has no channel
`api`, or its account is blocked. Nothing here knows the time: who gives the programs leaves out those that were revoked
and those that expired.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from policy.document import reading
from policy.document.entries import Principal
from policy.document.model import Document
from policy.labels import Label
from policy.request import Role

_PROGRAM: Final = "program:"


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is let in: its name without a prefix, its role and its clearance."""

    name: str
    role: Role
    clearance: Label

    @property
    def principal(self) -> str:
        """Its name as a principal."""
        return f"{_PROGRAM}{self.name}"

    @property
    def account(self) -> str:
        """Its one account."""
        return f"{reading.API}:{self.name}"


def is_program(principal: str) -> bool:
    """Say whether a principal is a program."""
    return principal.startswith(_PROGRAM)


def program_name(principal: str) -> str:
    """Return the name of a program without the prefix; the inverse of `Program.principal`."""
    return principal.removeprefix(_PROGRAM)


def with_programs(document: Document, programs: Iterable[Program]) -> Document:
    """Return a policy with the programs that are let in among its principals; none at all returns it as it is."""
    known = {one.principal: _principal(one) for one in programs if not _is_void(document, one)}
    if not known:
        return document
    return document.model_copy(update={"principals": MappingProxyType({**document.principals, **known})})


def _is_void(document: Document, program: Program) -> bool:
    known = program.clearance.compartments.issubset(document.compartments) and reading.is_name(program.name)
    return not known or reading.API not in document.channels or program.account in document.blocked


def _principal(program: Program) -> Principal:
    return Principal.model_construct(
        role=program.role, clearance=program.clearance, accounts=(program.account,), may_release=False
    )
