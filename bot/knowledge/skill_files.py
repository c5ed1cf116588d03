"""Skills as folders that hold a `SKILL.md`: front matter in YAML, and numbered steps below it.

The layout is the one that other agents read, too: the folder's name is the skill's, written small with hyphens. A
file's own claims, of its label or approval above all, count for nothing: the loader gives its label, and a person
approves it anew. A file holds a heading and numbered steps and no more, so that nothing of it is lost unseen.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from bot.config.file.yaml import BrokenYamlError, parse_yaml
from bot.core.errors import RequestError
from bot.knowledge.skill_keeper import checked
from bot.sessions.knowledge.skills import Skill, SkillText, SkillVersion

FILE: Final = "SKILL.md"
"""The file that holds a skill, in a folder of its own."""

LARGEST: Final = 32_768
"""Bytes of a file that is read."""

_FENCE: Final = "---"
_STEP: Final = re.compile(r"(\d{1,3})[.)][ \t]+(\S.*)")
_KNOWN: Final = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME: Final = 64
_TITLE: Final = "title"
_DOMAIN: Final = "domain"
_ID: Final = "lockgate-id"
_VERSION: Final = "lockgate-version"
_LABEL: Final = "lockgate-label"
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9 -]*[A-Za-z0-9]")
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


class BrokenSkillError(RequestError):
    """A file is not one of a skill; the sentence says why."""

    code = "skill_file"


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file's content: the text of a skill, and the id that it was saved under, empty for one from elsewhere."""

    text: SkillText
    id: str = ""


def folder_name(skill: Skill) -> str:
    """Return the name of the folder of a skill: its name, written small with hyphens, or its id."""
    plain = unicodedata.normalize("NFKD", skill.shown.text.name).encode("ascii", "ignore").decode().lower()
    made = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_LONGEST_NAME].strip("-")
    return made or skill.id.replace("_", "-")


def written(skill: Skill, version: SkillVersion, folder: str) -> str:
    """Return the text of a file with one version of a skill, for a folder of this name."""
    text = version.text
    metadata = {
        _TITLE: text.name,
        **({_DOMAIN: text.domain} if text.domain else {}),
        _ID: skill.id,
        _VERSION: str(version.number),
        _LABEL: str(version.told),
    }
    lines = [
        _FENCE,
        f"name: {_scalar(folder)}",
        f"description: {_scalar(text.description or text.name)}",
        "metadata:",
        *(f"  {name}: {_scalar(value)}" for name, value in metadata.items()),
        _FENCE,
        "",
        f"# {text.name}",
        "",
        *(f"{number}. {step}" for number, step in enumerate(text.steps, 1)),
    ]
    return "\n".join(lines) + "\n"


def read(source: bytes, folder: str) -> SkillFile:
    """Return the content of a file in a folder of this name.

    Raises BrokenSkillError: it is too large, not of this layout, or no skill.
    """
    if len(source) > LARGEST:
        raise BrokenSkillError(f"it has more than {LARGEST} bytes")
    try:
        lines = source.decode().removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        raise BrokenSkillError("it is not UTF-8") from None
    if not lines or lines[0].rstrip() != _FENCE:
        raise BrokenSkillError("it does not begin with front matter between lines of `---`")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), 0)
    if not end:
        raise BrokenSkillError("its front matter has no end")
    front = _front("\n".join(lines[1:end]))
    name, description = _word(front, "name"), _word(front, "description")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME or name != folder:
        raise BrokenSkillError(f"its `name` is not that of its folder, `{folder[:_LONGEST_NAME]}`")
    metadata = _metadata(front)
    title, steps = _body(lines[end + 1 :])
    title = metadata.get(_TITLE, "") or title or name
    text = SkillText(title, "" if description == title else description, metadata.get(_DOMAIN, ""), tuple(steps))
    try:
        return SkillFile(checked(text), metadata.get(_ID, ""))
    except RequestError as error:
        raise BrokenSkillError(str(error)) from None


def _front(source: str) -> Mapping[str, JsonValue]:
    """Return the front matter. Raises BrokenSkillError: it cannot be read, or has fields that nobody knows."""
    try:
        parsed = parse_yaml(source)
    except BrokenYamlError as error:
        raise BrokenSkillError(f"its front matter is {error}") from None
    if parsed.problems:
        raise BrokenSkillError(f"its front matter: {parsed.problems[0].message}")
    if not isinstance(parsed.value, dict):
        raise BrokenSkillError("its front matter has no fields")
    strange = sorted(parsed.value.keys() - _KNOWN)
    if strange:
        raise BrokenSkillError(f"its front matter has an unknown field, `{strange[0][:_LONGEST_NAME]}`")
    return parsed.value


def _word(front: Mapping[str, JsonValue], name: str) -> str:
    found = front.get(name)
    if not isinstance(found, str) or not found.strip():
        raise BrokenSkillError(f"its front matter needs `{name}`, a text")
    return found.strip()


def _metadata(front: Mapping[str, JsonValue]) -> Mapping[str, str]:
    found = front.get("metadata") or {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise BrokenSkillError("its `metadata` is no list of names with texts")
    return cast("Mapping[str, str]", found)


def _body(lines: list[str]) -> tuple[str, list[str]]:
    """Return the heading and the steps. Raises BrokenSkillError: there is something else, or they are not in order."""
    title, steps = "", list[str]()
    for line, blank in _with_blanks(lines):
        step = _STEP.fullmatch(line)
        if step is not None:
            if int(step[1]) != len(steps) + 1:
                raise BrokenSkillError(f"its steps are not numbered in order: `{step[1]}.` is no. {len(steps) + 1}")
            steps.append(step[2].strip())
        elif not steps and not title and line.startswith("# "):
            title = line[2:].strip()
        elif steps and (line[0] in " \t" or not blank):
            steps[-1] = f"{steps[-1]} {line.strip()}"
        else:
            raise BrokenSkillError("it holds something else than a heading and numbered steps")
    if not steps:
        raise BrokenSkillError("it has no numbered steps")
    return title, steps


def _with_blanks(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the lines that have words, each with whether an empty one is before it."""
    blank = True
    for line in lines:
        if line.strip():
            yield line.rstrip(), blank
        blank = not line.strip()


def _scalar(text: str) -> str:
    """Return a text as YAML writes it: plain where nothing could be taken for anything else, else in quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(char: str) -> str:
    if char in {'"', "\\"}:
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"
