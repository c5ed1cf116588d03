"""What running needs and whether it is there: the checks that `lockgate doctor` and `/doctor` share.

What is told of a check names fields, models and variables, and no value of one. Nothing here connects, polls or takes a
lease: adapters and servers are asked by whoever has them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from bot.config.model import OFFLINE, Config
from bot.errors import ConfigError, OperatorError, StoreRefusedError
from bot.labelling import CONFIGURED
from bot.secrets import Keyring
from channels.base import Platform
from policy.labels import PUBLIC, Label


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what is wrong and how to mend it, both empty when it is in order.

    `note` is to be known all the same, `details` the same for programs. `label` is that of what an admin is told by it:
    PUBLIC if it tells nothing of what is configured but what a platform and every member learns.
    """

    subject: str
    problem: str = ""
    next_step: str = ""
    note: str = ""
    details: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    label: Label = CONFIGURED


class Health:
    """Looks at what a running process needs, with what it has at hand.

    `complaints` asks the store what makes it unfit, `listened` are the platforms that this process listens to.
    """

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        complaints: Callable[[], Awaitable[Sequence[StoreRefusedError]]],
        listened: Sequence[Platform],
    ) -> None:
        self._config = config
        self._environment = environment
        self._complaints = complaints
        self._listened = listened

    async def look(self) -> list[Finding]:
        """Return what was found, in the order of `lockgate doctor`."""
        config, environment = self._config, self._environment
        found = [await asyncio.to_thread(model, config, environment), web(config)]
        found.append(await asyncio.to_thread(secrets, config, environment))
        found += store(await self._complaints())
        for adapter in self._listened:
            found += await channel(adapter)
        return found


def make_models(config: Config, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Make the configured models and let them go, and look for the transcriber's key. It blocks.

    Returns those of which nobody knows how much they read at once.

    Raises ConfigError: a provider is unknown, its package is not installed, or a key is missing.
    """
    unknown: tuple[str, ...] = ()
    if config.model.all != (OFFLINE,):
        from bot.agent.providers import seats
        from bot.agent.window import Window

        made = seats(config.model, environment)
        named = (seat for seat in (*made.all, *made.choices) if seat.name != OFFLINE)
        unknown = tuple(seat.name for seat in named if Window.of(seat).tokens is None)
    if config.transcriber is not None:
        from bot.intake.transcriber import key

        key(config.transcriber, environment)
    return unknown


def uncleared(config: Config) -> tuple[str, ...]:
    """Return the models that nobody said a clearance of; they may read PUBLIC alone."""
    return tuple(name for name in config.model.all if name not in config.policy.models)


def unheard(config: Config) -> tuple[str, ...]:
    """Return the transcriber if nobody said a clearance of it; it may hear PUBLIC alone."""
    named = () if config.transcriber is None else (config.transcriber.model,)
    return tuple(name for name in named if name not in config.policy.transcribers)


def model(config: Config, environment: Mapping[str, str]) -> Finding:
    """Look whether every model can be made, and has a clearance. It blocks."""
    problem, step, note = "", "", ""
    try:
        unknown = make_models(config, environment)
    except ConfigError as error:
        problem, step = str(error).removeprefix("model "), error.next_step
    else:
        for name in unknown:
            note = f"nobody knows how much `{name}` reads at once: say its `context_tokens` under `model.providers`"
        for name in unheard(config):
            problem, step = f"`{name}` may hear PUBLIC alone", "add it to `policy.transcribers`"
        for name in uncleared(config):
            problem, step = f"`{name}` has no clearance, it may read PUBLIC alone", "add it to `policy.models`"
    return Finding("model", problem, step, note)


def web(config: Config) -> Finding:
    """Look whether sessions can reach what is not public."""
    private = config.web.unsafe_allow_private_addresses
    if private:
        return Finding(
            "web",
            f"every session may reach {', '.join(f'`{one}`' for one in private)}",
            "take them out of `web.unsafe_allow_private_addresses` unless that is meant",
        )
    return Finding("web")


def read_secrets(config: Config, environment: Mapping[str, str]) -> Keyring:
    """Read the values of the configured secrets, to see that they are there. It blocks.

    Raises OperatorError: some are not.
    """
    return Keyring.load(config.secrets, environment, config.folder)


def secrets(config: Config, environment: Mapping[str, str]) -> Finding:
    """Look whether the values of the configured secrets are there. It blocks."""
    try:
        read_secrets(config, environment)
    except OperatorError as error:
        return Finding("secrets", str(error), error.next_step)
    return Finding("secrets")


def store(complaints: Sequence[StoreRefusedError]) -> list[Finding]:
    """Return what is told of the store, of which these are the complaints."""
    told = [Finding("store", str(problem), problem.next_step, label=PUBLIC) for problem in complaints]
    return told or [Finding("store", label=PUBLIC)]


async def channel(adapter: Platform) -> list[Finding]:
    """Ask an adapter what is wrong with its connection."""
    troubles = await adapter.troubles()
    subject = f"channel {adapter.name}"
    remarks = "; ".join(f"{one.problem}, {one.next_step}" for one in troubles if one.remark)
    wrong = [
        Finding(subject, one.problem, one.next_step, label=CONFIGURED if one.names else PUBLIC)
        for one in troubles
        if not one.remark
    ]
    return wrong or [Finding(subject, note=remarks, label=PUBLIC)]


def line(finding: Finding) -> str:
    """Return a finding as a line for people."""
    if not finding.problem:
        return f"ok    {finding.subject}{f', {finding.note}' if finding.note else ''}"
    parts = (finding.problem, finding.next_step, finding.note)
    return f"mend  {finding.subject}: {', '.join(part for part in parts if part)}"
