"""Checking a policy before it is put in force: warnings about its rules, each with its line of the file."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.config.model import Config
from policy.lint import lint


@dataclass(frozen=True, slots=True)
class PolicyWarning:
    """Something questionable about a rule; `line` is where it stands in the configuration."""

    line: int
    kind: str
    message: str


def warnings(config: Config) -> tuple[PolicyWarning, ...]:
    """Return the warnings about the rules of a configuration that can be put in force."""
    lines = config.rule_lines
    return tuple(PolicyWarning(lines[one.place], one.kind, one.message) for one in lint(config.policy.rules))


def lines(source: str, found: Sequence[PolicyWarning]) -> list[str]:
    """Return warnings as lines for people; `source` is the file that they are about."""
    return [f"{source}:{one.line}: {one.kind}: {one.message}" for one in found]
