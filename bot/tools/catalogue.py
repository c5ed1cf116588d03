"""The built-in tools, in the order they are offered; a new one is one line here (docs/writing-a-tool.md)."""

from typing import Final

from bot.rate import RateLimiter
from bot.sessions.port import SessionStore
from bot.tools.base import Tool
from bot.tools.clock import CurrentTime
from bot.tools.files import ListFiles, ReadFile, WriteFile
from bot.tools.introspection import SessionStatus, SimulateToolCall
from bot.tools.labelled_files import FileRoot
from bot.tools.message import Message

NAMES: Final = tuple(
    tool.name for tool in (ReadFile, ListFiles, WriteFile, CurrentTime, Message, SessionStatus, SimulateToolCall)
)
"""The names a policy may use."""


def built_in(files: FileRoot, sessions: SessionStore, simulations: RateLimiter) -> tuple[Tool, ...]:
    """Return the tools; `simulations` bounds how often a session may ask what the gate would decide."""
    return (
        ReadFile(files),
        ListFiles(files),
        WriteFile(files),
        CurrentTime(),
        Message(),
        SessionStatus(sessions),
        SimulateToolCall(simulations),
    )
