"""The built-in tools, in the order they are offered (docs/writing-a-tool.md)."""

from types import MappingProxyType
from typing import Final

from bot.core.rate_limiter import RateLimiter
from bot.pinned_agents import PinnedAgents
from bot.sessions.ports.store import Store
from bot.tools.arguments import types
from bot.tools.asking import AskUser
from bot.tools.base import Tool
from bot.tools.clock import CurrentTime
from bot.tools.files import ListFiles, ReadFile, WriteFile
from bot.tools.history import SessionsHistory
from bot.tools.introspection import SimulateToolCall
from bot.tools.labelled_files import FileRoot
from bot.tools.message import Message
from bot.tools.references import Admit
from bot.tools.sending import SessionsSend
from bot.tools.sessions import SessionsList, SessionStatus
from bot.tools.spawning import SessionsSpawn
from bot.tools.summarize import Recap, Summarize
from bot.tools.web_fetch import WebFetch

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
    AskUser,
)

NAMES: Final = tuple(tool.name for tool in _TOOLS)
"""The names a policy may use."""

ARGUMENTS: Final = MappingProxyType({tool.name: types(tool.arguments) for tool in _TOOLS})
"""The same names, each with its arguments and their types, for conditions."""


def built_in(
    files: FileRoot, sessions: Store, *, simulations: RateLimiter, web: WebFetch, recap: Recap, agents: PinnedAgents
) -> tuple[Tool, ...]:
    """Return the tools.

    `simulations` bounds how often a session may ask what the gate would decide; `recap` asks the configured models.
    `agents` knows which agent a session has.
    """
    return (
        ReadFile(files),
        ListFiles(files),
        WriteFile(files),
        CurrentTime(),
        Message(),
        SessionsList(sessions.index),
        SessionsHistory(sessions.sessions),
        SessionStatus(sessions, agents),
        Summarize(sessions.sessions, recap),
        SimulateToolCall(simulations),
        SessionsSpawn(),
        web,
        SessionsSend(sessions.sessions),
        Admit(),
        AskUser(),
    )
