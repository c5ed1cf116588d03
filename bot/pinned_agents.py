"""The pinned agent of a session: the one from its creation, regardless of later configuration.

A new session pins the agent that the configuration names for its chat, or else for its person. The snapshot is in the
store before the session is. A snapshot that cannot be read makes the agent `lost`: no model is asked and no tool runs,
and operators are told. It is never replaced by another agent.

The configuration is read once, at the start of a process. Nothing here decides the rights of an agent.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from bot.access import agents, principals
from bot.access.agents import AgentSnapshot, Pin
from bot.config.agents import DEFAULT, AgentSettings, agent_places, chosen_tools, with_default
from bot.config.model import Config
from bot.core.errors import RequestError, SchemaError
from bot.sessions.limits import SessionLimits
from bot.sessions.models import SessionState
from bot.sessions.ports.accounts import AgentStore
from policy.document.model import Document
from policy.document.overrides import ChatPlace

MISSING: Final = "its snapshot is not in the store"
UNREADABLE: Final = "its snapshot cannot be read from the store"
NOT_PINNED: Final = "the session pinned no agent"
ANEW: Final = "`/reset` begins anew with the agent that is configured now"
"""An operator's step for a session whose agent is lost."""

_LOGGER: Final = logging.getLogger(__name__)
_KEPT: Final = 256
"""How many snapshots a process keeps in memory."""


class UnknownAgentError(RequestError):
    """There is no agent with this name; the list of agents is for people who may see the configuration."""

    code = "unknown_agent"

    def __init__(self) -> None:
        super().__init__("there is no agent of this name", next_step="name one of `agents` in config.yaml")


class CredentialError(RequestError):
    """There is no such credential, or none that an agent of the same models may use; the sentence is the same."""

    code = "credential"

    def __init__(self) -> None:
        told = "this agent may not use this credential"
        super().__init__(told, next_step="name the credential of an agent that has the same models")


class LimitsError(RequestError):
    """Limits of a session are above those of its agent, which are not shown."""

    code = "limits"

    def __init__(self) -> None:
        super().__init__("limits of a session can only be lower than those of its agent", next_step="lower them")


@dataclass(frozen=True, slots=True)
class WantedAgent:
    """The agent of a new session as its program asks for it.

    Args:
        name: Its name, empty for the agent that the configuration names.
        credential: Its credential, empty for the agent's own.
        tokens: The token limit, None for the agent's own.
        turn_seconds: The limit of a turn in seconds, None for the agent's own.
        turns: The limit of turns without a person, None for the agent's own.
    """

    name: str = ""
    credential: str = ""
    tokens: int | None = None
    turn_seconds: int | None = None
    turns: int | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """The differences between the pinned agent of a session and the configured one.

    Args:
        configured: Whether an agent with its name is configured.
        differs: The parts in which that one is different.
        gone: The pinned tools that this process does not have.
        added: The tools that it would have now.
    """

    configured: bool
    differs: tuple[str, ...]
    gone: tuple[str, ...]
    added: tuple[str, ...]


class PinnedAgents:
    """Knows the agents of sessions.

    Args:
        store: The store of snapshots.
        config: The configuration.
        tools: Returns all tools of this process, each with the digest of its description for models.
        in_force: Returns the policy in force, which names people and their accounts.
        limits: The limits of sessions whose agent sets none.
    """

    def __init__(
        self,
        store: AgentStore,
        config: Config,
        *,
        tools: Callable[[], Mapping[str, str]],
        in_force: Callable[[], Document],
        limits: SessionLimits,
    ) -> None:
        self._store = store
        self._config = config
        self._tools = tools
        self._in_force = in_force
        self._limits = limits
        self._places = agent_places(config.agents, config.policy)
        self._people = {person: name for name, agent in config.agents.items() for person in agent.people}
        self._made: dict[str, AgentSnapshot] = {}
        self._tools_here: Mapping[str, str] | None = None
        self._stored: dict[str, str] = {}
        self._known = OrderedDict[str, AgentSnapshot]()
        self._wanted = OrderedDict[WantedAgent, str]()

    @property
    def configured(self) -> tuple[AgentSnapshot, ...]:
        """All agents as they are configured now, the default one first."""
        return tuple(self._configured(name) for name in with_default(self._config.agents))

    def named_for(self, owner: str) -> AgentSnapshot:
        """Return the agent of a new session.

        Args:
            owner: The principal of the session: a person's name, or a shared chat. In a shared chat the asker's agent
                does not count.
        """
        return self._configured(self._name_for(owner))

    async def pin(self, owner: str) -> str:
        """Return the pin of a new session of a principal; the snapshot is in the store by then.

        Args:
            owner: As for `named_for`.

        Raises:
            StoreError: It could not be kept there.
        """
        name = self._name_for(owner)
        if name not in self._stored:
            self._stored[name] = await self._kept(self._configured(name))
        return self._stored[name]

    async def pin_as(self, owner: str, wanted: WantedAgent) -> str:
        """Return the pin of a session whose program chooses its agent; the snapshot is in the store by then.

        Args:
            owner: As for `named_for`.
            wanted: The agent, with the differences for this session.

        Raises:
            UnknownAgentError: The configuration has no agent of that name.
            CredentialError: No agent with the same models may use that credential.
            LimitsError: They are above those of the agent.
            StoreError: It could not be kept there.
        """
        name = wanted.name or self._name_for(owner)
        wanted = replace(wanted, name=name)
        if wanted in self._wanted:
            return self._wanted[wanted]
        if name not in with_default(self._config.agents):
            raise UnknownAgentError
        agent = self._configured(name)
        if wanted.credential:
            agent = replace(agent, credential=self._shared_credential(agent, wanted.credential))
        pin = self._wanted[wanted] = await self._kept(replace(agent, limits=_lowered(agent.limits, wanted)))
        if len(self._wanted) > _KEPT:
            self._wanted.popitem(last=False)
        return pin

    async def pinned(self, pin: str) -> AgentSnapshot:
        """Return the agent that a session has pinned, a lost one if that cannot be read.

        Args:
            pin: The pin in the session's record.

        Raises:
            StoreError: The store does not answer.
        """
        if pin in self._known:
            self._known.move_to_end(pin)
            return self._known[pin]
        asked, why = Pin.parse(pin), MISSING if pin else NOT_PINNED
        try:
            text = await self._store.read(asked.digest) if asked.digest else None
            if text is not None:
                return self._remembered(pin, agents.read(text, asked.digest))
        except (SchemaError, ValueError):
            why = UNREADABLE
        same = next((one for one in self.configured if agents.pin_of(one) == asked), None)
        if same is None:
            return _lost(asked, why)
        # Its digest is that of the very same text, so no part of it differs.
        await self._kept(same)
        return same

    async def working(self, state: SessionState) -> AgentSnapshot:
        """Return the agent of a session as it works there: with people's choices for the session. Raises StoreError."""
        return (await self.pinned(state.agent)).using(state.memory)

    def drift(self, pinned: AgentSnapshot) -> Drift:
        """Return the differences between the pinned agent of a session and the configured one."""
        if pinned.lost:
            return Drift(configured=pinned.name in with_default(self._config.agents), differs=(), gone=(), added=())
        here, had = self._here(), pinned.tools or {}
        gone = tuple(name for name in had if name not in here)
        if pinned.name not in with_default(self._config.agents):
            return Drift(configured=False, differs=(), gone=gone, added=())
        now = self._configured(pinned.name)
        parts = {
            "instructions": now.prompt_digest != pinned.prompt_digest,
            "model": now.model_digest != pinned.model_digest,
            "tools": now.tools_digest != pinned.tools_digest,
            "limits": now.limits != pinned.limits,
            "memory": now.memory is not pinned.memory,
        }
        added = tuple(name for name in now.tools or {} if name not in had)
        return Drift(
            configured=True, differs=tuple(part for part, is_so in parts.items() if is_so), gone=gone, added=added
        )

    def _shared_credential(self, agent: AgentSnapshot, credential: str) -> str:
        """Return a credential that an agent of the same models has. Raises CredentialError: none has it."""
        if not any(one.models == agent.models and one.credential == credential for one in self.configured):
            raise CredentialError
        return credential

    async def _kept(self, snapshot: AgentSnapshot) -> str:
        """Put a snapshot into the store and return its pin."""
        pin = agents.pin_of(snapshot)
        await self._store.put(pin.digest, agents.written(snapshot))
        self._remembered(str(pin), snapshot)
        return str(pin)

    def _remembered(self, pin: str, snapshot: AgentSnapshot) -> AgentSnapshot:
        self._known[pin] = snapshot
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return snapshot

    def _here(self) -> Mapping[str, str]:
        """Return all tools of this process; their descriptions for models never change."""
        if self._tools_here is None:
            self._tools_here = self._tools()
        return self._tools_here

    def _name_for(self, owner: str) -> str:
        if principals.is_chat(owner):
            there = principals.address(owner)
            return self._places.get(str(ChatPlace(there.channel, there.workspace, there.chat)), DEFAULT)
        document = self._in_force()
        known = document.principals.get(owner)
        accounts, groups = () if known is None else known.accounts, sorted(document.groups_of(owner))
        return next((self._people[one] for one in (owner, *accounts, *groups) if one in self._people), DEFAULT)

    def _configured(self, name: str) -> AgentSnapshot:
        """Return an agent as it is configured now."""
        if name not in self._made:
            self._made[name] = self._snapshot(name, with_default(self._config.agents)[name])
        return self._made[name]

    def _snapshot(self, name: str, settings: AgentSettings) -> AgentSnapshot:
        here, said, general = self._here(), settings.limits, self._limits
        return replace(
            _bare(self._config, name, settings),
            tools=MappingProxyType({tool: here[tool] for tool in sorted(chosen_tools(settings, here))}),
            limits=SessionLimits(
                tokens=general.tokens if said.tokens is None else said.tokens,
                turn_seconds=general.turn_seconds if said.turn_seconds is None else said.turn_seconds,
                turns=general.turns if said.turns is None else said.turns,
            ),
        )


def _lowered(usual: SessionLimits | None, wanted: WantedAgent) -> SessionLimits | None:
    """Return the limits of a session whose program wants lower ones. Raises LimitsError: they are higher."""
    if usual is None:
        return None
    pairs = ((wanted.tokens, usual.tokens), (wanted.turn_seconds, usual.turn_seconds), (wanted.turns, usual.turns))
    if any(asked is not None and most is not None and asked > most for asked, most in pairs):
        raise LimitsError
    return SessionLimits(
        tokens=usual.tokens if wanted.tokens is None else wanted.tokens,
        turn_seconds=usual.turn_seconds if wanted.turn_seconds is None else wanted.turn_seconds,
        turns=usual.turns if wanted.turns is None else wanted.turns,
    )


def bare_agents(config: Config) -> tuple[AgentSnapshot, ...]:
    """Return the configured agents without their tools and limits: enough to check whether they can be asked."""
    return tuple(_bare(config, name, settings) for name, settings in with_default(config.agents).items())


def _bare(config: Config, name: str, settings: AgentSettings) -> AgentSnapshot:
    usual = config.model
    models = usual.chain if settings.model is None else settings.model.chain
    return AgentSnapshot(
        name=name,
        instructions=usual.instructions if settings.instructions is None else settings.instructions,
        models=models,
        tools=None,
        limits=None,
        credential=settings.credential or "",
        memory=settings.memory,
        addressed=tuple(filter(usual.addressed, models)),
    )


def subject(agent: AgentSnapshot) -> str:
    """Return the name of an agent in messages to operators."""
    return f"agent `{agent.name}`" if agent.name else "the agent of a session that pinned none"


def told(pinned: AgentSnapshot, drift: Drift) -> list[str]:
    """Return the description of a session's agent for people, a line for each fact."""
    if pinned.lost:
        return [f"agent {pinned.name or 'unknown'}, which cannot be read; {ANEW}"]
    lines = [f"agent {pinned.name}" + ("" if drift.configured else ", which is not configured any more")]
    lines += [f"{part}: the configuration has changed, a reset takes it over" for part in drift.differs]
    if drift.gone:
        lines.append(f"tools that are gone: {', '.join(drift.gone)}")
    if drift.added:
        lines.append(f"tools that are new and not offered here: {', '.join(drift.added)}")
    return lines


def as_json(pinned: AgentSnapshot, drift: Drift) -> dict[str, JsonValue]:
    """Return the description of a session's agent for models and programs."""
    return {
        "name": pinned.name,
        "readable": not pinned.lost,
        "configured": drift.configured,
        "differs": [*drift.differs],
        "gone_tools": [*drift.gone],
        "new_tools": [*drift.added],
    }


def _lost(asked: Pin, why: str) -> AgentSnapshot:
    found = agents.lost(asked.name)
    _LOGGER.error(
        "the agent of a session is lost", extra={"subject": subject(found), "cause": why, "step": ANEW, "alert": True}
    )
    return found
