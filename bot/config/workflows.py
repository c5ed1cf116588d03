"""Definitions of workflows: those in config.yaml, and their files, with the line of each mistake.

The shipped ones are there in any case; a file of one's own with the name of one takes its place.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import Field, JsonValue

from bot.config.fields import Block
from bot.config.file.yaml import BrokenYamlError, parse_yaml
from bot.config.file.yaml import Path as Place
from bot.core.errors import ConfigError
from bot.sessions.workflows.definitions import (
    CONTEXT_FILES,
    LONGEST_NAME,
    LONGEST_TITLE,
    MOST_STEPS,
    MOST_SUB_STEPS,
    StepDefinition,
    WorkflowDefinition,
)
from policy.errors import Problem, nearest

_LIMIT: Final = 100_000
_DIGEST: Final = 16
_NAME: Final = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{LONGEST_NAME - 1}}}")
_STEP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,15}")
_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}|[{}]")
_SUFFIXES: Final = frozenset({".yaml", ".yml"})
_FIELDS: Final = ("name", "title", "steps")
_STEP_FIELDS: Final = ("name", "sub_steps", "context_files", "artifacts", "gate", "reviewer", "optional")


class WorkflowSettings(Block):
    """Where definitions of workflows are: a folder of YAML files beside config.yaml; null for the shipped ones."""

    definitions: str | None = Field(default=None, min_length=1, max_length=4096)


def load_definitions(folder: Path | None, agents: Collection[str]) -> Mapping[str, WorkflowDefinition]:
    """Return the shipped definitions and those of a folder, by name.

    `agents` are the names that a reviewer may have. Raises ConfigError: with one line for each problem.
    """
    definitions = {one.name: one for one in _shipped()}
    paths, told = dict[str, Path](), list[str]()
    for path in _paths(folder) if folder is not None else ():
        try:
            made = read_definition(_text(path), str(path), agents)
        except ConfigError as error:
            told.append(str(error))
            continue
        if made.name in paths:
            told.append(
                f"{path}: the workflow `{made.name}` stands in {paths[made.name].name} too, name one of them anew"
            )
        paths[made.name], definitions[made.name] = path, made
    if told:
        raise ConfigError("\n".join(told))
    return MappingProxyType(definitions)


@cache
def _shipped() -> tuple[WorkflowDefinition, ...]:
    """Return the shipped definitions, which a process reads once."""
    folder = files("bot.sessions.workflows").joinpath("shipped")
    return tuple(read_definition(one.read_text(encoding="utf-8"), one.name, None) for one in folder.iterdir())


def read_definition(text: str, source: str, agents: Collection[str] | None) -> WorkflowDefinition:
    """Read the definition of a workflow.

    Args:
        text: the YAML.
        source: how its file is called.
        agents: the names that a reviewer may have, None for any.

    Raises ConfigError: with one line for each problem.
    """
    try:
        got = parse_yaml(text)
    except BrokenYamlError as error:
        raise ConfigError(f"{source}:{error.line}: {error}" if error.line else f"{source}: {error}") from None
    reading = _Reading(agents)
    made = reading.definition(got.value)
    problems = (*got.problems, *reading.problems)
    if problems or made is None:
        told = sorted({(got.line(problem.path), problem.message) for problem in problems})
        raise ConfigError("\n".join(f"{source}:{line}: {message}" for line, message in told))
    return made


class _Reading:
    """Reads one definition, and notes its faults."""

    def __init__(self, agents: Collection[str] | None) -> None:
        self.problems: list[Problem] = []
        self._agents = agents

    def definition(self, value: JsonValue) -> WorkflowDefinition | None:
        """Return the definition, None where there are problems."""
        got = self._block(value, (), _FIELDS)
        name, title = self._text(got, "name", ()), self._text(got, "title", (), needed=False)
        if name and _NAME.fullmatch(name) is None:
            self._wrong(("name",), "a workflow's name has lower-case letters, digits, `-` and `_`")
        blocks = got.get("steps")
        if not isinstance(blocks, dict) or not blocks:
            self._wrong(("steps",), '`steps` must be a block of steps by their ids, such as `"1":`')
            return None
        if len(blocks) > MOST_STEPS:
            self._wrong(("steps",), f"a workflow has at most {MOST_STEPS} steps")
        steps = tuple(self._step(step, block) for step, block in blocks.items())
        if self.problems:
            return None
        plain = json.dumps(cast("Any", value), sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(plain.encode()).hexdigest()[:_DIGEST]
        return WorkflowDefinition(name, title or name, digest, steps)

    def _step(self, step: str, value: JsonValue) -> StepDefinition:
        at: Place = ("steps", step)
        if _STEP.fullmatch(step) is None:
            self._wrong(at, "a step's id has 1 to 16 letters, digits and `_`, as in `3_5`")
        got = self._block(value, at, _STEP_FIELDS)
        sub_steps = tuple(self._names(got, at))
        budget = got.get("context_files", CONTEXT_FILES.stop - 1)
        if not isinstance(budget, int) or isinstance(budget, bool) or budget not in CONTEXT_FILES:
            self._wrong(
                (*at, "context_files"), f"`context_files` must be {CONTEXT_FILES.start} to {CONTEXT_FILES.stop - 1}"
            )
            budget = CONTEXT_FILES.start
        reviewer = self._text(got, "reviewer", at, needed=False)
        if reviewer and self._agents is not None and reviewer not in self._agents:
            self._wrong((*at, "reviewer"), f"there is no agent `{reviewer}`{nearest(reviewer, self._agents)}")
        return StepDefinition(
            step,
            self._text(got, "name", at),
            sub_steps,
            budget,
            tuple(self._artifacts(got, at)),
            gate=self._flag(got, "gate", at),
            reviewer=reviewer,
            optional=self._flag(got, "optional", at),
        )

    def _names(self, got: Mapping[str, JsonValue], at: Place) -> Iterator[str]:
        seen = set[str]()
        for place, name in enumerate(self._list(got, "sub_steps", at)):
            here = (*at, "sub_steps", place)
            if not isinstance(name, str) or _NAME.fullmatch(name) is None:
                self._wrong(here, "a sub-step's name has lower-case letters, digits, `-` and `_`")
            elif name in seen:
                self._wrong(here, f"`{name}` is given twice")
            else:
                seen.add(name)
                yield name
        if len(seen) > MOST_SUB_STEPS:
            self._wrong((*at, "sub_steps"), f"a step has at most {MOST_SUB_STEPS} sub-steps")

    def _artifacts(self, got: Mapping[str, JsonValue], at: Place) -> Iterator[str]:
        for place, path in enumerate(self._list(got, "artifacts", at)):
            here = (*at, "artifacts", place)
            if not isinstance(path, str) or not path.isprintable() or not 0 < len(path) <= LONGEST_TITLE:
                self._wrong(here, f"an artifact is a path of at most {LONGEST_TITLE} characters")
                continue
            if path.startswith("/") or ".." in path.split("/"):
                self._wrong(here, "an artifact's path is relative, without `..`")
            strange = [one for one in _PLACEHOLDER.findall(path) if one != "{project}"]
            if strange:
                self._wrong(here, f"`{strange[0]}` stands for nothing, use `{{project}}`")
            yield path

    def _block(self, value: JsonValue, at: Place, known: tuple[str, ...]) -> Mapping[str, JsonValue]:
        if not isinstance(value, dict):
            self._wrong(at, f"`{at[-1] if at else 'the file'}` must be a block of fields")
            return {}
        for name in value:
            if name not in known:
                self._wrong((*at, name), f"unknown field `{name}`{nearest(name, known)}")
        return value

    def _text(self, got: Mapping[str, JsonValue], name: str, at: Place, *, needed: bool = True) -> str:
        value = got.get(name)
        if value is None:
            if needed:
                self._wrong(at, f"`{name}` is missing, add it")
            return ""
        if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= LONGEST_TITLE:
            self._wrong((*at, name), f"`{name}` must be a text of one line, of at most {LONGEST_TITLE} characters")
            return ""
        return value

    def _flag(self, got: Mapping[str, JsonValue], name: str, at: Place) -> bool:
        value = got.get(name, False)
        if not isinstance(value, bool):
            self._wrong((*at, name), f"`{name}` must be true or false")
            return False
        return value

    def _list(self, got: Mapping[str, JsonValue], name: str, at: Place) -> list[JsonValue]:
        value = got.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self._wrong((*at, name), f"`{name}` must be a list")
            return []
        return value

    def _wrong(self, at: Place, message: str) -> None:
        self.problems.append(Problem(at, message))


def _paths(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder", next_step="check `workflows.definitions`")
    return sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)


def _text(path: Path) -> str:
    """Return the text of a file. Raises ConfigError: it cannot be read, or is too large."""
    try:
        with path.open("rb") as file:
            content = file.read(_LIMIT + 1)
        if len(content) <= _LIMIT:
            return content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read, {(error.strerror or 'unknown error').lower()}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8, save the file as UTF-8") from None
    raise ConfigError(f"{path}: larger than 100 kB, that is no definition")
