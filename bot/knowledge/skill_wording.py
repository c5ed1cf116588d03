"""A skill's text, line by line as a person reads it before they approve it: all of it, and nothing else.

Each part of a skill stands on one line behind its own name or number, as code, and invisible characters are spelled. So
no part can be taken for another one, or for words of ours, and a channel leaves out nothing that it reads as Markdown.
"""

from typing import Final

from bot.core.invisible import in_code
from bot.sessions.knowledge.skills import SkillText, SkillVersion
from policy.labels import Label

BY_AGENT: Final = "Written by the agent"
BY_PERSON: Final = "Written by {}"
ANYBODY: Final = ", from UNTRUSTED data"
"""The note on a version that is UNTRUSTED."""


def text_lines(text: SkillText) -> list[str]:
    """Return all that a skill says, one line for each of its parts."""
    return [
        f"Name: {in_code(text.name)}",
        f"Description: {in_code(text.description) if text.description else 'none'}",
        f"Domain: {in_code(text.domain) if text.domain else 'any'}",
        *(f"{number}. {in_code(step)}" for number, step in enumerate(text.steps, 1)),
    ]


def origin_line(label: Label, *, by: str = "") -> str:
    """Return the origin of a version: an agent, or the person `by`; `label` is its writer's."""
    who = BY_PERSON.format(in_code(by)) if by else BY_AGENT
    return f"{who}{ANYBODY if label.untrusted else ''}. Label: {label}"


def version_lines(version: SkillVersion) -> list[str]:
    """Return a version whole: its text, and its origin."""
    return [*text_lines(version.text), origin_line(version.label, by="" if version.by_agent else version.asker)]
