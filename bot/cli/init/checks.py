"""Trying an answer of `lockgate init` before it is written: one call of a model, and a platform's word about a token.

The probes are those of `lockgate doctor --probe`. No finding holds a value of a key or a token.
"""

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from bot.app.adapters import platforms
from bot.cli.init.answers import ModelAnswer, PlatformAnswer, PlatformKind
from bot.cli.init.standalone import MemoryVault, SoleLease
from bot.config.channels import ChannelsSettings, SlackSettings, TelegramSettings
from bot.config.model import OFFLINE, Config, ModelSettings, ProviderSettings
from bot.core.errors import ConfigError
from bot.operations.diagnostics import make_models
from bot.operations.probes.models import models
from channels.port import Platform, Probing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SECONDS: Final = 20.0
"""How long a platform may take."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of a check: a fact for people, and a problem with the step that mends it, empty if there is none."""

    fact: str = ""
    problem: str = ""
    next_step: str = ""


async def check_model(answer: ModelAnswer, config: Config, environment: Mapping[str, str]) -> CheckResult:
    """Ask a model for one token."""
    if answer.name == OFFLINE:
        return CheckResult("The model `offline` needs no key and no network.")
    try:
        said = ProviderSettings(base_url=answer.address or None, key=answer.key or None)
        known = {answer.name: said} if answer.address or answer.key else {}
        tried = replace(
            config, model=ModelSettings(name=answer.name, providers=known), agents={}, transcriber=None, secrets={}
        )
        await asyncio.to_thread(make_models, tried, environment)
    except ConfigError as error:
        return _mended(str(error), error.next_step)
    except ValidationError as error:
        return CheckResult(problem=f"model `{answer.name}` cannot be used", next_step=str(error.errors()[0]["msg"]))
    (found,) = await models(tried, environment)
    if found.problem:
        return _mended(f"{found.subject}: {found.problem}", found.next_step)
    return CheckResult(f"{found.subject[:1].upper()}{found.subject[1:]}: {found.note}.")


async def check_platform(answer: PlatformAnswer, config: Config, environment: Mapping[str, str]) -> CheckResult:
    """Ask a platform about a token; one that calls this machine is asked by the doctor in the end."""
    facts = list[str]()
    if called(answer.kind, config.channels):
        return CheckResult(f"`channels.{answer.kind.value}` is called from outside, so the doctor checks it.")
    try:
        async with adapter(answer, config, environment, SoleLease(idle=True)) as made, asyncio.timeout(SECONDS):
            troubles = await made.troubles()
            wrong = [one for one in troubles if not one.remark]
            if wrong:
                return _mended(wrong[0].problem, wrong[0].next_step)
            if isinstance(made, Probing):
                found = [one for one in await made.probe() if one.remark]
                facts = [", ".join(filter(None, (one.problem, _link(answer, one.next_step)))) for one in found]
    except ConfigError as error:
        return _mended(str(error), error.next_step)
    except TimeoutError:
        told = f"{answer.kind.value} did not answer in {SECONDS:g} seconds"
        return CheckResult(problem=told, next_step="look at the network of this machine")
    return CheckResult(f"The token is valid: {'; '.join(facts)}." if facts else "The token is valid.")


@asynccontextmanager
async def adapter(
    answer: PlatformAnswer, config: Config, environment: Mapping[str, str], lease: SoleLease
) -> "AsyncGenerator[Platform]":
    """Make the adapter of a platform and close it in the end.

    Raises ConfigError: its token is not in the environment.
    """
    (made,) = platforms(
        settings_of(answer, config.channels),
        environment,
        lease=lease,
        vault=MemoryVault,
        in_force=lambda: config.policy,
    )
    try:
        yield made
    finally:
        await made.close()


def settings_of(answer: PlatformAnswer, before: ChannelsSettings) -> ChannelsSettings:
    """Return the settings of one platform as they would be, and of no other."""
    said = {"token": answer.token, "base_url": answer.address or None}
    if answer.kind is PlatformKind.TELEGRAM:
        return ChannelsSettings(telegram=(before.telegram or TelegramSettings()).model_copy(update=said))
    said |= {"app_token": answer.app_token}
    return ChannelsSettings(slack=(before.slack or SlackSettings()).model_copy(update=said))


def called(kind: PlatformKind, channels: ChannelsSettings) -> bool:
    """Say whether a platform calls this machine, so that it cannot be listened to beside `lockgate run`."""
    telegram, slack = channels.telegram, channels.slack
    if kind is PlatformKind.TELEGRAM:
        return telegram is not None and telegram.webhook is not None
    return slack is not None and (slack.http is not None or slack.install is not None)


def _link(answer: PlatformAnswer, step: str) -> str:
    """Return where to write to the bot; a server that plays a platform has no such address."""
    return "" if answer.address else step


def _mended(problem: str, step: str) -> CheckResult:
    """Return a problem; a variable that is set elsewhere is seen by a new process alone."""
    again = "environment" in f"{problem} {step}"
    return CheckResult(problem=problem, next_step=f"{step}, then run `lockgate init` again" if again else step)
