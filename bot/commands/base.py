"""What a command is, what it is given, and what it answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from bot.authorize import Caller
from bot.errors import RequestError
from bot.gate import Gate
from bot.ids import Ids
from bot.rate import RateLimiter
from bot.sessions.port import AuditStore, SessionStore
from bot.sessions.values import SessionState
from bot.standing import Standing
from bot.tools.labelled_files import FileRoot
from channels.message import Address
from policy.decision import Decision
from policy.labels import PUBLIC, Label
from policy.request import Role


class Store(SessionStore, AuditStore, Protocol):
    """What commands ask of the store."""


class CommandError(RequestError):
    """A command that cannot be understood or followed; its sentence is shown to whoever typed it."""

    code = "command"


class UsageError(CommandError):
    """Arguments that do not fit; the command's usage line is shown."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: `label` is that of what it tells, and the outbox compares it with the readers'."""

    text: str
    label: Label = PUBLIC


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Who asks, where, and what a command may use.

    `sid` is the session of the address. `now` is milliseconds since the epoch. `simulations` counts
    `/simulate` for all addresses. `interrupt` stops a session's turn at once if it runs in this process.
    """

    caller: Caller
    address: Address
    sid: str
    store: Store
    gate: Gate
    files: FileRoot
    ids: Ids
    now: int
    simulations: RateLimiter
    interrupt: Callable[[str], None]

    async def state(self) -> SessionState | None:
        """Return the session's record, None before its first message."""
        return await self.store.state(self.sid)

    async def standing(self, state: SessionState | None) -> Standing:
        """Return the facts a decision for this caller starts from; a session not begun has read nothing."""
        return Standing(
            sid=self.sid,
            generation=0 if state is None else state.generation,
            turn="",
            principal=self.caller.principal,
            role=self.caller.role,
            ceiling=self.caller.clearance,
            home=self.address,
            destination=await self.gate.destination(self.address),
            taint=PUBLIC if state is None else state.taint,
            now=self.now,
        )

    def explained(self, decision: Decision, standing: Standing, subject: str) -> str:
        """Return a decision in words for the readers of this address."""
        return self.gate.explained(decision, standing.destination.clearance or PUBLIC, subject)


Run = Callable[[CommandContext, str], Awaitable[Reply]]
"""Runs a command with the text after its name.

Raises UsageError: the arguments do not fit. Any other RequestError is shown as it is.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table; `usage` begins with the name, `help` is one sentence."""

    name: str
    usage: str
    help: str
    run: Run
    needs: Role = Role.MEMBER
