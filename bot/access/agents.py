"""Agent snapshots: a session pins one when it is created, so that a change of configuration affects new sessions only.

A snapshot holds names and texts, and no secret: its credential is the name of one. It is stored under the digest of its
own text. A session keeps the pin: the agent's name with that digest. The policy is never part of a snapshot.
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
"""The number of hexadecimal digits of a digest that are kept."""

_NO_SKILLS: Final = ""


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """An agent as a session pins it.

    Args:
        name: Its name in config.yaml.
        instructions: Its instructions.
        models: Its models, in the order in which they are asked.
        tools: The offered tools, each with the digest of its description for models; None, which no session pins, is
            every tool.
        limits: Its limits.
        credential: The name of the secret that is the key of its models, empty for the usual keys.
        addressed: Those of its models that the configuration gives an address or a key of their own, and that must not
            be asked without it.
        skills: The digest of its skills, empty for none.
        memory: How its sessions use memories.
        lost: Whether it stands for a snapshot that cannot be read: it has no model and no tool.
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
        """Return the agent for a conversation where people chose a use of memories, None for no choice."""
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
        """The digest of its tools: names with their descriptions for models."""
        return short_digest(_canonical(dict(self.tools or {})))


@dataclass(frozen=True, slots=True)
class Pin:
    """The reference to an agent in a session's record: its name, and the digest of its snapshot."""

    name: str
    digest: str

    def __str__(self) -> str:
        """Return the pin as it is stored."""
        return f"{self.name}/{self.digest}"

    @staticmethod
    def parse(text: str) -> "Pin":
        """Read a stored pin; an empty text gives an empty pin."""
        name, _, digest = text.partition("/")
        return Pin(name, digest)


def lost(name: str) -> AgentSnapshot:
    """Return a stand-in for an agent whose snapshot cannot be read: it has no models and no tools."""
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
        # Older snapshots had no field for memories; their digest must stay the same.
        **({} if snapshot.memory is MemoryUse.TOOL else {"memory": snapshot.memory.value}),
    }
    return _canonical(told)


def read(text: str, digest: str) -> AgentSnapshot:
    """Return the snapshot of a stored text.

    Raises ValueError: the text is not a snapshot, or not the one of this digest.
    """
    if short_digest(text) != digest:
        raise ValueError("the text does not fit its digest")
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
    """Return the pin of a snapshot."""
    return Pin(snapshot.name, short_digest(written(snapshot)))


def short_digest(text: str) -> str:
    """Return the kept part of a text's SHA-256: `DIGITS` hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def _canonical(value: "JsonValue") -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
