"""The taint of an MCP connection: the join of all told to the agent at its other end, as a session's (ADR 0048).

A model sits at the other end. Everything that it read here may be in its next words, so their label is the join of the
program's own words with all that. It rises and never falls; only the program that has the token opens another
connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bot.access import labelling
from bot.api.requests import ApiRequest
from bot.api.services import ApiServices
from policy.labels import PUBLIC, Label


@dataclass(frozen=True, slots=True)
class McpLimits:
    """How long connections of MCP last, and how many there are.

    A token has `most` at a time, in a process. An unused connection stands for `idle` seconds, and a request is
    answered within `answer` seconds.
    """

    most: int = 64
    idle: float = 1800
    answer: float = 120


LIMITS: Final = McpLimits()


async def _kept_nowhere(_label: Label) -> None:
    """Keep nothing: the connection ends with its process."""


class AgentConnection:
    """A connection of an agent, from its first message to its last.

    `told` is the label of all that the agent was told before. `keep` keeps a higher one for other processes.
    """

    def __init__(self, told: Label = PUBLIC, keep: Callable[[Label], Awaitable[None]] = _kept_nowhere) -> None:
        """Begin."""
        self._told = told
        self._keep = keep
        self._telling = asyncio.Lock()

    @property
    def told(self) -> Label:
        """The label of all answers on it."""
        return self._told

    async def tell(self, label: Label) -> None:
        """Note that an answer of a label goes out on it, before it does. Raises VaultError: it must not go out."""
        async with self._telling:
            told = self._told.join(label)
            if told != self._told:
                await self._keep(told)
                self._told = told


def words_of(services: ApiServices, asked: ApiRequest, connection: AgentConnection | None) -> Label:
    """Return the label of an agent's words.

    Without a connection its knowledge is unknown: then it may be all that its token may read, and an attacker may have
    written it (law `unknown_is_worst`).
    """
    caller = asked.caller
    typed = labelling.inbound(services.gate.document, caller.address, caller.caller.role, authored=True)
    told = labelling.untrusted(asked.reader) if connection is None else connection.told
    return typed.join(told)
