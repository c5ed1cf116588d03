"""Agent snapshots: what a session pins when it is created, so that a change of configuration is for new ones only.

A snapshot holds names and texts, and no secret: its credential is the name of one. It is stored under the digest of its
own text, and a session keeps its name with that digest, the pin. What the policy says is never part of it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from bot.sessions.knowledge.memories import MEMORY, MemoryUse
from bot.sessions.limits import SessionLimits

if TYPE_CHECKING:
    from pydantic import JsonValue

DIGITS: Final = 12
"""Hexadecimal digits of a digest that are kept of it."""

_NO_SKILLS: Final = ""


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """An agent as a session pins it.

    `models` are asked in this order. `addressed` are those of them that the configuration gave an address or a key of
    their own, without which they are not to be asked. `tools` are the offered ones, each with the digest of what models
    are told of it; None, which no session pins, is every tool. `credential` is the name of the secret that is the key
    of its models, empty for the usual keys. `skills` is the digest of its skills, empty for none. `memory` is what its
    sessions do with memories. A `lost` one stands for what cannot be read: it has no model and no tool.
    """

    name: str
    instructions: str
    models: tuple[str, ...]
    tools: Mapping[str, str] | None = field(hash=False)
    limits: SessionLimits | None
    credential: str = ""
    addressed: tuple[str, ...] = ()
    skills: str = _NO_SKILLS
    memory: MemoryUse = MemoryUse.TOOL
    lost: bool = False

    def offers(self, tool: str) -> bool:
        """Say whether a tool is among those of this agent."""
        return self.tools is None or tool in self.tools

    def using(self, chosen: MemoryUse | None) -> "AgentSnapshot":
        """Return it as it works in a conversation where people chose what is done with memories, None for nothing."""
        memory = self.memory.narrowed(chosen)
        if memory is self.memory:
            return self
        if memory is not MemoryUse.OFF:
            return replace(self, memory=memory)
        return replace(
            self, memory=memory, tools={name: of for name, of in (self.tools or {}).items() if name != MEMORY}
        )

    @property
    def prompt_digest(self) -> str:
        """The digest of its instructions."""
        return short_digest(self.instructions)

    @property
    def model_digest(self) -> str:
        """The digest of its models in their order, and of the name of their key."""
        return short_digest(_canonical([*self.models, self.credential]))

    @property
    def tools_digest(self) -> str:
        """The digest of its tools: names with what models are told of them."""
        return short_digest(_canonical(dict(self.tools or {})))


@dataclass(frozen=True, slots=True)
class Pin:
    """What a session's record says of its agent: its name, and the digest of its snapshot."""

    name: str
    digest: str

    def __str__(self) -> str:
        """Return it as it is stored."""
        return f"{self.name}/{self.digest}"

    @staticmethod
    def parse(text: str) -> "Pin":
        """Read a stored one; an empty text is a pin of nothing."""
        name, _, digest = text.partition("/")
        return Pin(name, digest)


def lost(name: str) -> AgentSnapshot:
    """Return what stands for an agent whose snapshot cannot be read: nothing may be asked of it or done by it."""
    return AgentSnapshot(name, "", (), MappingProxyType({}), None, lost=True)


def written(snapshot: AgentSnapshot) -> str:
    """Return a snapshot as it is stored: the same text in every process."""
    limits = snapshot.limits
    told: dict[str, JsonValue] = {
        "name": snapshot.name,
        "instructions": snapshot.instructions,
        "models": [*snapshot.models],
        "addressed": [*snapshot.addressed],
        "tools": dict(snapshot.tools or {}),
        "limits": None if limits is None else [limits.tokens, limits.turn_seconds, limits.turns],
        "credential": snapshot.credential,
        "prompt": snapshot.prompt_digest,
        "model": snapshot.model_digest,
        "tool": snapshot.tools_digest,
        "skills": snapshot.skills,
        # Snapshots of before said nothing of memories; their digest is to stay what it was.
        **({} if snapshot.memory is MemoryUse.TOOL else {"memory": snapshot.memory.value}),
    }
    return _canonical(told)


def read(text: str, digest: str) -> AgentSnapshot:
    """Return the snapshot of a stored text.

    Raises ValueError: it is none, or not the one of this digest.
    """
    if short_digest(text) != digest:
        raise ValueError("the text is not what its digest names")
    try:
        told = cast("Mapping[str, JsonValue]", json.loads(text))
        limits = cast("tuple[int | None, int, int | None] | None", told["limits"])
        return AgentSnapshot(
            name=str(told["name"]),
            instructions=str(told["instructions"]),
            models=tuple(cast("list[str]", told["models"])),
            tools=MappingProxyType(cast("dict[str, str]", told["tools"])),
            limits=None if limits is None else SessionLimits(*limits),
            credential=str(told["credential"]),
            addressed=tuple(cast("list[str]", told["addressed"])),
            skills=str(told["skills"]),
            memory=MemoryUse(str(told.get("memory", MemoryUse.TOOL))),
        )
    except (KeyError, TypeError) as error:
        raise ValueError("the text is not a snapshot") from error


def pin_of(snapshot: AgentSnapshot) -> Pin:
    """Return what a session keeps of a snapshot."""
    return Pin(snapshot.name, short_digest(written(snapshot)))


def short_digest(text: str) -> str:
    """Return as much of a text's SHA-256 as is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def _canonical(value: "JsonValue") -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
