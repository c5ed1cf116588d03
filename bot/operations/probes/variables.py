"""The environment variables that findings about a platform are about: adapters know tokens and not their names."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from bot.config.channels import ChannelsSettings
from bot.operations.diagnostics import Diagnosis

_ENDS: Final = "into the environment"


def named(found: Iterable[Diagnosis], channels: ChannelsSettings) -> Iterator[Diagnosis]:
    """Yield findings, those that ask for a new token with the name of its variable."""
    for one in found:
        variable = _variable(one, channels)
        told = f"{one.next_step} variable `{variable}`"
        yield replace(one, next_step=told) if variable and one.next_step.endswith(_ENDS) else one


def _variable(finding: Diagnosis, channels: ChannelsSettings) -> str:
    telegram, slack = channels.telegram, channels.slack
    if finding.subject.endswith("telegram"):
        return "" if telegram is None else telegram.token
    if slack is None or not finding.subject.endswith("slack"):
        return ""
    if "app-level token" in finding.problem:
        return slack.app_token
    if "signing secret" in finding.problem:
        return "" if slack.http is None else slack.http.secret
    return slack.token
