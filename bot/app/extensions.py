"""The additions of a developer to the application, without changing it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bot.files.port import LabelledFiles
from bot.sessions.ports.sessions import SessionStore
from bot.tools.base import Tool
from bot.tools.web.connection import Resolve, system_resolver

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from bot.admission.transcription import Transcriber


@dataclass(frozen=True, slots=True)
class Extensions:
    """The additions of a developer."""

    tools: Callable[[LabelledFiles, SessionStore], tuple[Tool, ...]] = lambda _files, _sessions: ()
    """Returns tools beside the built-in ones."""
    model: "Callable[[str], Model] | None" = None
    """Returns the model of a name, in place of the configured provider's."""
    resolve: Resolve = system_resolver
    """Looks up the network addresses of a host name."""
    transcriber: "Transcriber | None" = None
    """Transcribes recordings, in place of the configured one."""


BUILT_IN: Final = Extensions()
"""Nothing beside Lockgate's own parts."""
