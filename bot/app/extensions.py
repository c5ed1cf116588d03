"""What a developer adds to the application, without changing it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bot.sessions.ports.sessions import SessionStore
from bot.tools.base import Tool
from bot.tools.labelled_files import FileRoot
from bot.tools.web_connection import Resolve, system_resolver

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from bot.admission.transcription import Transcriber


@dataclass(frozen=True, slots=True)
class Extensions:
    """What a developer adds: tools beside the built-in ones, the model behind a name, and how names are looked up.

    `transcriber` writes down what is said in recordings, in the place of the configured one.
    """

    tools: Callable[[FileRoot, SessionStore], tuple[Tool, ...]] = lambda _files, _sessions: ()
    model: "Callable[[str], Model] | None" = None
    resolve: Resolve = system_resolver
    transcriber: "Transcriber | None" = None


BUILT_IN: Final = Extensions()
"""Nothing beside what Lockgate brings."""
