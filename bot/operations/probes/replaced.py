"""Sections of `policy:` that replace the shipped ones and drop an entry that this installation needs.

A section in the file stands in the place of the whole shipped one. An operator who adds a person, a channel or a model
by writing the section anew loses the console, or the model `offline`, and would learn it by a refusal.
"""

import logging
from typing import Final, cast

from bot.config.model import Config
from bot.config.shipped import add, drops, entries
from bot.operations.diagnostics import Diagnosis
from policy.request import Role

_LOGGER: Final = logging.getLogger(__name__)


def dropped(config: Config) -> list[Diagnosis]:
    """Return a finding for every needed entry that the file drops from a shipped section."""
    policy, found = config.policy, list[Diagnosis]()
    owners = {
        account for person in policy.principals.values() if person.role is Role.OWNER for account in person.accounts
    }
    for name, entry in entries("principals").items():
        accounts = cast("list[str]", entry["accounts"])
        if not owners.issuperset(accounts):
            found.append(_finding("principals", name, "this command line serves nobody"))
    for name in entries("channels"):
        if name not in policy.channels:
            found.append(_finding("channels", name, "`lockgate chat` may show PUBLIC alone"))
    for name in entries("models"):
        if name in config.model.all and name not in policy.models:
            found.append(_finding("models", name, "this model may read PUBLIC alone"))
    return found


def in_words(finding: Diagnosis) -> str:
    """Return a finding as one line for people."""
    return f"{finding.problem}: {finding.next_step}"


def log_dropped(config: Config) -> None:
    """Log each of them, where a process starts."""
    for one in dropped(config):
        facts = {"cause": one.problem, "step": one.next_step}
        _LOGGER.warning("a section of the policy lacks an entry", extra=facts)


def _finding(section: str, name: str, effect: str) -> Diagnosis:
    return Diagnosis(f"policy section `{section}`", drops(section, name, effect), add(section, name))
