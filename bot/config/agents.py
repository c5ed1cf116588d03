"""`agents:`: agents for people and chats, each with its models, instructions, tools and limits.

A session pins its agent when it is created, so all of this counts for sessions that begin afterwards. The policy, not
this section, decides the knowledge and rights of a session.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from bot.config.fields import Block
from bot.config.references import NAME
from bot.sessions.knowledge.memories import MEMORY, MemoryUse
from policy.document.groups import memberships
from policy.document.model import Document
from policy.document.overrides import ChatPlace
from policy.errors import Problem, nearest

DEFAULT: Final = "default"
"""The agent of people and chats for which the configuration names no other."""

_IN_WORKSPACES: Final = frozenset({"slack"})
"""Channels whose people and chats are named behind their workspace."""

_GLOB: Final = frozenset("*?[")


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"`{name}` is not a name, use up to 64 lower-case letters, digits, `_` and `-`")
    return name


AgentName = Annotated[str, AfterValidator(_name)]


class AgentModel(Block):
    """The models of an agent in the order they are asked; all of them are named under `model:` too."""

    name: str = Field(min_length=1, max_length=256)
    fallback: tuple[str, ...] = Field(default=(), strict=False, max_length=10)

    @property
    def chain(self) -> tuple[str, ...]:
        """The models in the order they are asked."""
        return (self.name, *self.fallback)


class AgentLimits(Block):
    """The limits of an agent's session, see `SessionLimits`; null is as for every session."""

    tokens: int | None = Field(default=None, ge=1000, le=1_000_000_000_000)
    turn_seconds: int | None = Field(default=None, ge=1, le=7 * 24 * 3600)
    turns: int | None = Field(default=None, ge=1, le=1_000_000)


class AgentSettings(Block):
    """One agent; a null field is as under `model:`, or as for every session."""

    model: AgentModel | None = Field(default=None)
    instructions: str | None = Field(default=None, max_length=100_000)
    tools: tuple[str, ...] | None = Field(default=None, strict=False, max_length=1000)
    """Names of tools, or globs of them, null for all."""
    limits: AgentLimits = AgentLimits()
    credential: str | None = Field(default=None, min_length=1, max_length=64)
    """The name under `secrets` of the key that its models are asked with."""
    memory: MemoryUse = Field(default=MemoryUse.TOOL, strict=False)
    """Its sessions' use of memories, where people of a conversation choose nothing else."""
    people: tuple[str, ...] = Field(default=(), strict=False, max_length=1000)
    """The principals, groups or accounts whose own sessions have this agent; a name goes before its groups."""
    chats: tuple[str, ...] = Field(default=(), strict=False, max_length=1000)
    """The shared chats that have this agent, by their name in the policy or as `/classify` names them."""


AgentsSettings = Mapping[AgentName, AgentSettings]


def chosen_tools(settings: AgentSettings, known: Iterable[str]) -> tuple[str, ...]:
    """Return those of the tools there are that an agent is offered."""
    asked, none = settings.tools, {MEMORY} if settings.memory is MemoryUse.OFF else set[str]()
    chosen = (name for name in known if asked is None or any(fnmatchcase(name, one) for one in asked))
    return tuple(name for name in chosen if name not in none)


def agent_places(agents: AgentsSettings, policy: Document) -> dict[str, str]:
    """Return which agent a shared chat has, by the chat as `/classify` names it."""
    return {_place(chat, policy): name for name, agent in agents.items() for chat in agent.chats}


@dataclass(frozen=True, slots=True)
class NamedElsewhere:
    """The names in the rest of the configuration that agents may use."""

    models: Collection[str]
    """All models that may be asked."""
    usual: tuple[str, ...]
    """The models of an agent that names none."""
    addresses: Mapping[str, str | None]
    """The addresses of the models that have one of their own."""
    secrets: Collection[str]
    tools: Collection[str]


def agent_problems(agents: AgentsSettings, known: NamedElsewhere, policy: Document | None) -> Iterator[Problem]:
    """Yield the faults of the agents: unknown names, and two agents for one person or chat.

    Without a `policy`, which is wrong itself then, people and chats are not looked at.
    """
    for name, agent in agents.items():
        yield from _unknown(name, agent, known)
        if agent.credential is not None:
            yield from _one_key(name, known.usual if agent.model is None else agent.model.chain, known.addresses)
    if policy is not None:
        yield from _twice(agents, policy)
        yield from _by_two_groups(agents, policy)
        for name, agent in agents.items():
            yield from _nobody(name, agent, policy)


def _unknown(name: str, agent: AgentSettings, known: NamedElsewhere) -> Iterator[Problem]:
    path = ("agents", name)
    for place, model in enumerate(() if agent.model is None else agent.model.chain):
        where = ("model", "name") if place == 0 else ("model", "fallback", place - 1)
        if model not in known.models:
            told = f"unknown model `{model}`{nearest(model, known.models)}"
            yield Problem((*path, *where), f"{told}; `model.choices` may name it")
    for place, tool in enumerate(agent.tools or ()):
        if not any(fnmatchcase(one, tool) for one in known.tools):
            kind = "no tool is named like" if _GLOB & set(tool) else "unknown tool"
            yield Problem((*path, "tools", place), f"{kind} `{tool}`{nearest(tool, known.tools)}")
    if agent.credential is not None and agent.credential not in known.secrets:
        told = f"unknown secret `{agent.credential}`{nearest(agent.credential, known.secrets)}"
        yield Problem((*path, "credential"), told)


def _one_key(name: str, chain: tuple[str, ...], addresses: Mapping[str, str | None]) -> Iterator[Problem]:
    """Refuse to send one key to two providers, or to two addresses."""
    served = {(model.partition(":")[0].partition("-")[0], addresses.get(model)) for model in chain if ":" in model}
    if len(served) > 1:
        told = "one key is for one provider, so all models of an agent with a `credential` are of one provider"
        yield Problem(("agents", name, "credential"), told)


def _twice(agents: AgentsSettings, policy: Document) -> Iterator[Problem]:
    first = dict[tuple[str, str], str]()
    for name, agent in agents.items():
        named = [("people", place, person, person) for place, person in enumerate(agent.people)]
        named += [("chats", place, chat, _place(chat, policy)) for place, chat in enumerate(agent.chats)]
        for kind, place, said, meant in named:
            other = first.setdefault((kind, meant), name)
            if other != name:
                told = f"`{said}` has the agent `{other}` already, name one of them"
                yield Problem(("agents", name, kind, place), told)


def _by_two_groups(agents: AgentsSettings, policy: Document) -> Iterator[Problem]:
    """Tell of people whose groups give them different agents; an entry of their own decides."""
    agent_of = {person: (name, place) for name, agent in agents.items() for place, person in enumerate(agent.people)}
    for person, groups in sorted(memberships(policy.groups).items()):
        found = {agent_of[group][0]: group for group in sorted(groups) if group in agent_of}
        known = policy.principals.get(person)
        own = () if known is None else known.accounts
        if len(found) > 1 and agent_of.keys().isdisjoint({person, *own}):
            (first, one), (second, other), *_ = sorted(found.items())
            told = (
                f"`{person}` has the agent `{first}` by `{one}` and `{second}` by `{other}`, name them under one agent"
            )
            yield Problem(("agents", second, "people", agent_of[other][1]), told)


def _nobody(name: str, agent: AgentSettings, policy: Document) -> Iterator[Problem]:
    """Tell of people and chats that there are not; an account or a place need not be known yet."""
    for place, person in enumerate(agent.people):
        path = ("agents", name, "people", place)
        known = policy.principal(person) if ":" in person else None
        if known is not None:
            yield Problem(path, f"`{person}` is an account of `{known[0]}`, write that")
        elif ":" not in person and person not in policy.principals and person not in policy.groups:
            known_names = (*policy.principals, *policy.groups)
            yield Problem(path, f"unknown principal `{person}`{nearest(person, known_names)}")
        elif ":" in person and person.partition(":")[0] not in policy.channels:
            channel = person.partition(":")[0]
            yield Problem(path, f"unknown channel `{channel}`{nearest(channel, policy.channels)}")
        elif told := _incomplete(person):
            yield Problem(path, told)
    for place, chat in enumerate(agent.chats):
        path = ("agents", name, "chats", place)
        channel = chat.partition(":")[0]
        if ":" not in chat and chat not in policy.chats:
            yield Problem(path, f"unknown chat `{chat}`{nearest(chat, policy.chats)}")
        elif ":" in chat and channel not in policy.channels:
            yield Problem(path, f"unknown channel `{channel}`{nearest(channel, policy.channels)}")
        elif told := _incomplete(chat):
            yield Problem(path, told)


def _incomplete(named: str) -> str:
    """Return the fault of an impossible name of an account or a chat, empty if it is possible."""
    channel, *parts = named.split(":")
    if not parts or (all(parts) and len(parts) >= 1 + (channel in _IN_WORKSPACES)):
        return ""
    shape = f"{channel}:WORKSPACE:ID" if channel in _IN_WORKSPACES else f"{channel}:ID"
    return f"`{named}` names nothing there can be, write it as `{shape}`"


def _place(chat: str, policy: Document) -> str:
    """Return a chat as `/classify` names it."""
    known = policy.chats.get(chat)
    return chat if known is None else str(ChatPlace(known.channel, known.workspace, known.chat))


def with_default(agents: AgentsSettings) -> dict[str, AgentSettings]:
    """Return all agents; the default one is among them, configured or not."""
    return {DEFAULT: AgentSettings(), **agents}
