"""A session's instructions on asking, delegating, holding and passing by reference, by its tools.

A model uses these ways only if its instructions name them. Each sentence appears only where its tools exist.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from bot.sessions.knowledge.memories import MEMORY
from bot.tools.arguments import contents, types
from bot.tools.asking import ASK
from bot.tools.background.runs import INITIALIZE
from bot.tools.base import Arguments, Tool
from bot.tools.references import ADMIT, HOLD, REFERENCE, may_hold

SPAWN: Final = "sessions_spawn"


def guidance(tools: Sequence[Tool], *, spawns: bool, proposes: bool = False) -> str:
    """Return the instructions on these tools.

    `spawns` tells whether the session may delegate, and `proposes` whether its new memories are proposed to its user.
    """
    lines = [*_running(tools), *(_delegating(tools) if spawns else ()), *_asking(tools), *_holding(tools)]
    lines += _proposing(tools) if proposes else ()
    return "\n".join(lines)


def _running(tools: Sequence[Tool]) -> list[str]:
    if not any(tool.name == INITIALIZE for tool in tools):
        return []
    return [
        f"This is a run: you are asked again after each turn, until its goal is reached. Call `{INITIALIZE}` first.",
        "Name each task with `session_update` when you begin it, and count it with `session_increment_completed`.",
        "Call `steering_heartbeat` between tasks. At the end call `session_update` with the status `stopped`.",
    ]


def _asking(tools: Sequence[Tool]) -> list[str]:
    if not any(tool.name == ASK for tool in tools):
        return []
    return [f"To ask your user a question, call `{ASK}`. Give a `schema` where the answer is a choice."]


def _delegating(tools: Sequence[Tool]) -> list[str]:
    spawn = next((tool for tool in tools if tool.name == SPAWN), None)
    if spawn is None:
        return []
    told = (
        f"To delegate, call `{SPAWN}` with a `task`: a background session does it, and its result comes as a message."
    )
    if "returns" not in types(spawn.arguments):
        return [told]
    return [f"{told} With `returns` it answers in fields of given values, which keep out the text of a page or file."]


def _proposing(tools: Sequence[Tool]) -> list[str]:
    if not any(tool.name == MEMORY for tool in tools):
        return []
    return [
        f"If your user says what is worth knowing later, call `{MEMORY}` with the action `learn` before you answer.",
        "They are shown it and decide whether it is kept.",
    ]


@lru_cache(maxsize=256)
def _contents(arguments: type[Arguments]) -> tuple[str, ...]:
    """Return the places of content: every turn asks for those of every tool, and they never change."""
    return tuple(contents(arguments))


def _holding(tools: Sequence[Tool]) -> list[str]:
    if not any(may_hold(tool) for tool in tools):
        return []
    lines = [
        f'To keep a result out of this conversation, add `"{HOLD}": true` to the call: you get an id in its place.'
    ]
    places = [f"`{tool.name}.{place}`" for tool in tools if may_hold(tool) for place in _contents(tool.arguments)]
    if places:
        lines.append(f'To pass it on unread, write `{{"{REFERENCE}": "<id>"}}` in place of {", ".join(places)}.')
    if any(tool.name == ADMIT for tool in tools):
        lines.append(f"To read it after all, call `{ADMIT}` with its id as `ref`.")
    return lines
