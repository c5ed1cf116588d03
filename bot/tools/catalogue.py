"""The built-in tools, in the order they are offered (docs/writing-a-tool.md)."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.files.port import LabelledFiles
from bot.knowledge.briefing import Briefings
from bot.knowledge.keeper import MemoryKeeper
from bot.knowledge.patterns import Patterns
from bot.knowledge.recall import KnowledgeSearch
from bot.knowledge.skill_keeper import SkillKeeper
from bot.pinned_agents import PinnedAgents
from bot.rates import RateLimiter
from bot.schedules.keeper import ScheduleKeeper
from bot.sessions.limits import RunLimits
from bot.sessions.ports.store import Store
from bot.tools.arguments import types
from bot.tools.asking import AskUser
from bot.tools.background.run_starting import RunsStart
from bot.tools.background.runs import (
    SessionGetState,
    SessionGetStats,
    SessionIncrementCompleted,
    SessionInitialize,
    SessionUpdate,
    SteeringHeartbeat,
)
from bot.tools.background.scheduling import ScheduleCancel, ScheduleCreate, SchedulesList
from bot.tools.background.spawning import SessionsSpawn
from bot.tools.base import Arguments, Tool
from bot.tools.clock import CurrentTime
from bot.tools.files import ListFiles, ReadFile, WriteFile
from bot.tools.history import SessionsHistory
from bot.tools.inspecting import Inspect, Inspector
from bot.tools.introspection import SimulateToolCall
from bot.tools.knowledge.memory import MemoryTool
from bot.tools.knowledge.session import SessionTool
from bot.tools.knowledge.skill import SkillTool
from bot.tools.message import Message
from bot.tools.references import Admit
from bot.tools.sending import SessionsSend
from bot.tools.sessions import SessionsList, SessionStatus
from bot.tools.summarize import Recap, Summarize
from bot.tools.web.fetch import WebFetch
from bot.tools.workflow.workflow import WorkflowTool
from bot.workflows.keeper import WorkflowKeeper

_TOOLS: Final = (
    ReadFile,
    ListFiles,
    WriteFile,
    CurrentTime,
    Message,
    SessionsList,
    SessionsHistory,
    SessionStatus,
    Summarize,
    SimulateToolCall,
    SessionsSpawn,
    WebFetch,
    SessionsSend,
    Admit,
    Inspect,
    AskUser,
    SessionInitialize,
    SessionGetState,
    SessionGetStats,
    SessionUpdate,
    SessionIncrementCompleted,
    SteeringHeartbeat,
    RunsStart,
    ScheduleCreate,
    SchedulesList,
    ScheduleCancel,
    MemoryTool,
    SessionTool,
    SkillTool,
    WorkflowTool,
)

NAMES: Final = tuple(tool.name for tool in _TOOLS)
"""The names a policy may use."""

KINDS: Final = MappingProxyType[str, type[Arguments]]({tool.name: tool.arguments for tool in _TOOLS})
"""The same names, each with the type of its arguments."""

ARGUMENTS: Final = MappingProxyType({name: types(kind) for name, kind in KINDS.items()})
"""The same names, each with its arguments and their types, for conditions."""


@dataclass(frozen=True, slots=True)
class ToolParts:
    """The services of the built-in tools, beside files and the store."""

    simulations: RateLimiter
    """Bounds how often a session may simulate a call."""
    web: WebFetch
    recap: Recap
    """Asks the configured models for a recap."""
    inspect: Inspector
    """Asks the configured models about held items."""
    agents: PinnedAgents
    """Knows the agent of a session."""
    runs: RunLimits
    """The limits of runs."""
    schedules: ScheduleKeeper
    """Keeps schedules and reminders."""
    memories: MemoryKeeper
    """Keeps memories."""
    knowledge: KnowledgeSearch
    """Finds memories."""
    skills: SkillKeeper
    """Keeps skills."""
    patterns: Patterns
    """Finds similar memories."""
    briefings: Briefings
    """Tells of memories, skills and patterns."""
    workflows: WorkflowKeeper
    """Keeps workflows."""


def built_in(files: LabelledFiles, sessions: Store, parts: ToolParts) -> tuple[Tool, ...]:
    """Return the tools."""
    return (*_of_every_session(files, sessions, parts), *_of_runs(sessions, parts), *_of_knowledge(parts))


def _of_every_session(files: LabelledFiles, sessions: Store, parts: ToolParts) -> tuple[Tool, ...]:
    return (
        ReadFile(files),
        ListFiles(files),
        WriteFile(files),
        CurrentTime(),
        Message(),
        SessionsList(sessions.index),
        SessionsHistory(sessions.sessions),
        SessionStatus(sessions, parts.agents),
        Summarize(sessions.sessions, parts.recap),
        SimulateToolCall(parts.simulations),
        SessionsSpawn(),
        parts.web,
        SessionsSend(sessions.sessions),
        Admit(),
        Inspect(parts.inspect),
        AskUser(),
    )


def _of_runs(store: Store, parts: ToolParts) -> tuple[Tool, ...]:
    return (
        SessionInitialize(store.runs, store.sessions, parts.runs),
        SessionGetState(store.runs),
        SessionGetStats(store.runs, store.sessions),
        SessionUpdate(store.runs),
        SessionIncrementCompleted(store.runs),
        SteeringHeartbeat(store.runs),
        RunsStart(),
        ScheduleCreate(parts.schedules),
        SchedulesList(parts.schedules),
        ScheduleCancel(parts.schedules),
    )


def _of_knowledge(parts: ToolParts) -> tuple[Tool, ...]:
    return (
        MemoryTool(parts.memories, parts.knowledge),
        SessionTool(parts.briefings, skills=parts.skills, memories=parts.memories),
        SkillTool(parts.skills, parts.patterns),
        WorkflowTool(parts.workflows),
    )
