"""The requirements of running and whether they are met: the checks that `lockgate doctor` and `/doctor` share.

A check's text names fields, models and variables, and no value of one. This module does not connect, poll or take a
lease: their owners ask adapters and servers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from bot.access.labelling import CONFIGURED
from bot.access.tokens import own_words, unsighted
from bot.config.api import ApiSettings
from bot.config.files import BucketSettings
from bot.config.model import OFFLINE, Config
from bot.core.clock import moment
from bot.core.errors import UNREADABLE, ConfigError, OperatorError, SchemaError, StoreRefusedError
from bot.failures import Failure, Failures
from bot.files.bucket_access import opened_objects, reach
from bot.files.port import UnavailableError
from bot.pinned_agents import bare_agents
from bot.secrets import Keyring
from bot.sessions.installation.clocks import ClockDifference, difference
from bot.sessions.models import Doing, Quarantined
from bot.sessions.visibility import visibility_of
from bot.tools.base import Tool
from channels.port import Platform, Trouble
from policy.labels import PUBLIC, Label

if TYPE_CHECKING:
    from bot.sessions.ports.programs import TokenStore
    from bot.sessions.ports.store import Store

UNSIGHTED: Final = "{} may not read its own messages, so it sees none of its sessions"
SIGHT: Final = "give it a token of a higher clearance, or set `policy.channels.api.inbound`"
SPEAKING: Final = "messages of programs are labelled {}, so a token with a lower clearance sees no session of its own"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing looked at: its fault and how to mend it, both empty when it is in order."""

    subject: str
    problem: str = ""
    next_step: str = ""
    note: str = ""
    """A fact to know even if nothing is at fault."""
    details: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The same facts for programs."""
    label: Label = CONFIGURED
    """The label of the diagnosis to an admin: PUBLIC if it tells only facts that a platform and every member learn."""
    seen: bool = False
    """It was seen in the last hour and may be over by now."""


class Diagnostics:
    """Looks at the requirements of a running process, with the parts that it has.

    `complaints` asks the store for its faults, `listened` are the platforms that this process listens to. `failures`
    are the recent failures, `sessions` those of the store, `offered` returns the tools that models get.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        config: Config,
        environment: Mapping[str, str],
        *,
        complaints: Callable[[], Awaitable[Sequence[StoreRefusedError]]],
        listened: Sequence[Platform],
        failures: Failures,
        sessions: "Store",
        offered: Callable[[], Sequence[Tool]],
    ) -> None:
        self._config = config
        self._environment = environment
        self._complaints = complaints
        self._listened = listened
        self._failures = failures
        self._sessions = sessions
        self._offered = offered

    async def look(self, top: Label) -> list[Diagnosis]:
        """Return the diagnoses, in the order of `lockgate doctor`; `top` is the label of one that has none."""
        found = await configured(self._config, self._environment)
        found += await self.running(self._listened, top)
        return [*found, *(failed(one, top) for one in await self._failures.all())]

    async def running(self, adapters: Sequence[Platform], top: Label) -> list[Diagnosis]:
        """Return the diagnoses of tools, store, some adapters and sessions in quarantine."""
        found = [await asyncio.to_thread(tools, self._config, self._environment, self._offered())]
        found += store(await self._complaints())
        found.append(compared(difference(await self._sessions.clocks())))
        for adapter in adapters:
            found += await channel(adapter, top)
        if self._config.channels.api is not None:
            found += await api(self._config, self._config.channels.api, self._sessions.tokens)
        return [*found, *await quarantined(self._sessions, top)]


async def configured(config: Config, environment: Mapping[str, str]) -> list[Diagnosis]:
    """Return the diagnoses of models, agents, the web, the bucket and secrets, which need no store."""
    found = [await asyncio.to_thread(model, config, environment), web(config), webhooks(config)]
    if config.agents:
        found.append(await asyncio.to_thread(agents, config, environment))
    if config.files.bucket is not None:
        found.append(await asyncio.to_thread(bucket, config.files.bucket, environment))
    return [*found, await asyncio.to_thread(secrets, config, environment)]


def make_models(config: Config, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Make the configured models and let them go, and look for the transcriber's key. It blocks.

    Returns those of unknown window.

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
        from bot.admission.transcription import key

        key(config.transcriber, environment)
    return unknown


def make_agents(config: Config, environment: Mapping[str, str], keyring: Keyring) -> None:
    """Make the models of the configured agents and let them go. It blocks.

    Raises ConfigError: one of them cannot be asked with the secret that its agent names.
    """
    if any(agent.credential for agent in config.agents.values()):
        from bot.agent.providers import seats

        made = seats(config.model, environment, credential=keyring.credential)
        for agent in bare_agents(config):
            made.make(agent)


def agents(config: Config, environment: Mapping[str, str]) -> Diagnosis:
    """Look whether the models of every agent can be asked. It blocks."""
    named = ", ".join(f"`{one.name}`" for one in bare_agents(config))
    try:
        make_agents(config, environment, read_secrets(config, environment))
    except ConfigError as error:
        return Diagnosis("agents", str(error), error.next_step, named)
    except OperatorError:
        # That is told of the secrets.
        pass
    return Diagnosis("agents", note=named)


def uncleared(config: Config) -> tuple[str, ...]:
    """Return the models without a configured clearance; they may read PUBLIC alone."""
    return tuple(name for name in config.model.all if name not in config.policy.models)


def unheard(config: Config) -> tuple[str, ...]:
    """Return the transcriber if it has no configured clearance; it may hear PUBLIC alone."""
    named = () if config.transcriber is None else (config.transcriber.model,)
    return tuple(name for name in named if name not in config.policy.transcribers)


def model(config: Config, environment: Mapping[str, str]) -> Diagnosis:
    """Look whether every model can be made, and has a clearance. It blocks."""
    problem, step, note = "", "", ""
    try:
        unknown = make_models(config, environment)
    except ConfigError as error:
        problem, step = str(error).removeprefix("model "), error.next_step
    else:
        if unknown:
            many = _named(unknown)
            note = f"nobody knows how much {many} reads at once: say its `context_tokens` under `model.providers`"
        if names := unheard(config):
            problem, step = f"{_named(names)} may hear PUBLIC alone", "add it to `policy.transcribers`"
        if names := uncleared(config):
            problem, step = f"{_named(names)} has no clearance, it may read PUBLIC alone", "add it to `policy.models`"
    return Diagnosis("model", problem, step, note)


def tools(config: Config, environment: Mapping[str, str], offered: Sequence[Tool]) -> Diagnosis:
    """Look whether the definitions of the tools leave room in every model's window that is known. It blocks.

    `offered` are all offered tools. Where they take more than half, a recap cannot make room any more.
    """
    from bot.agent.models import toolset
    from bot.agent.providers import seats
    from bot.agent.window import Window, estimated

    try:
        made = seats(config.model, environment)
    except ConfigError:
        # That is told of the models.
        return Diagnosis("tools")
    parameters = toolset(offered)
    size = estimated((), parameters)
    windows = {seat.name: Window.of(seat) for seat in (*made.all, *made.choices)}
    small = {name: one for name, one in windows.items() if one.tokens is not None and size > one.tokens // 2}
    if not small:
        return Diagnosis("tools")
    read = ", ".join(f"`{name}` reads {one.tokens:,} beside its answer" for name, one in small.items())
    told = f"the tools' definitions alone take about {size:,} tokens, {read}"
    fewer = "list fewer tools under `mcp_servers`, " if config.mcp_servers else ""
    step = f"{fewer}raise `context_tokens` if the model reads more, or choose one that does"
    if any(one.crowded(parameters) for one in small.values()):
        return Diagnosis("tools", f"{told}, so it cannot be asked", step)
    return Diagnosis("tools", note=f"{told}: {step}")


def _named(models: tuple[str, ...]) -> str:
    return " or ".join(f"`{name}`" for name in models)


def web(config: Config) -> Diagnosis:
    """Look whether sessions can reach addresses that are not public."""
    private = config.web.unsafe_allow_private_addresses
    if private:
        return Diagnosis(
            "web",
            f"every session may reach {', '.join(f'`{one}`' for one in private)}",
            "take them out of `web.unsafe_allow_private_addresses` unless that is meant",
        )
    return Diagnosis("web")


def webhooks(config: Config) -> Diagnosis:
    """Look whether programs can have events sent to addresses that are not public."""
    private = config.webhooks.unsafe_allow_private_addresses
    if private:
        return Diagnosis(
            "webhooks",
            f"every program may have events sent to {', '.join(f'`{one}`' for one in private)}",
            "take them out of `webhooks.unsafe_allow_private_addresses` unless that is meant",
        )
    return Diagnosis("webhooks")


def bucket(settings: BucketSettings, environment: Mapping[str, str]) -> Diagnosis:
    """Look whether the bucket answers. It blocks."""
    told = f"`{settings.name}` at {settings.url}"
    try:
        reach(opened_objects(settings, environment))
    except (ConfigError, UnavailableError) as error:
        return Diagnosis("bucket", str(error), error.next_step)
    return Diagnosis("bucket", note=told)


def read_secrets(config: Config, environment: Mapping[str, str]) -> Keyring:
    """Read the values of the configured secrets, to see that they are there. It blocks.

    Raises OperatorError: some are not.
    """
    return Keyring.load(config.secrets, environment, config.folder)


def secrets(config: Config, environment: Mapping[str, str]) -> Diagnosis:
    """Look whether the values of the configured secrets are there. It blocks."""
    try:
        read_secrets(config, environment)
    except OperatorError as error:
        return Diagnosis("secrets", str(error), error.next_step)
    return Diagnosis("secrets")


def store(complaints: Sequence[StoreRefusedError]) -> list[Diagnosis]:
    """Return the diagnoses of the store, which has these complaints."""
    told = [Diagnosis("store", str(problem), problem.next_step, label=PUBLIC) for problem in complaints]
    return told or [Diagnosis("store", label=PUBLIC)]


def compared(found: ClockDifference) -> Diagnosis:
    """Return the diagnosis of the clocks of this machine and of the store's servers."""
    if not found.matters:
        note = f"{found.compared} servers compared" if found.compared > 1 else ""
        return Diagnosis("clocks", note=note if found.compared else "no server of the store told its time")
    ahead, behind = _clock_of(found.ahead), _clock_of(found.behind)
    told = f"the clock of {ahead} is {found.ms / 1000:.0f} s ahead of that of {behind}"
    return Diagnosis("clocks", told, "type `timedatectl set-ntp true` on both machines")


def _clock_of(server: str | None) -> str:
    if server is None:
        return "this machine"
    return f"the store's server `{server}`" if server else "the store"


async def channel(adapter: Platform, top: Label) -> list[Diagnosis]:
    """Ask an adapter for faults of its connection; a sealed one gets the highest label."""
    return told(f"channel {adapter.name}", await adapter.troubles(), top)


def told(subject: str, troubles: Sequence[Trouble], top: Label) -> list[Diagnosis]:
    """Return the troubles of an adapter as findings about a subject."""
    remarks = "; ".join(", ".join(filter(None, (one.problem, one.next_step))) for one in troubles if one.remark)
    wrong = [
        Diagnosis(subject, one.problem, one.next_step, label=top if one.sealed else CONFIGURED if one.names else PUBLIC)
        for one in troubles
        if not one.remark
    ]
    return wrong or [Diagnosis(subject, note=remarks, label=PUBLIC)]


async def api(config: Config, settings: ApiSettings, tokens: "TokenStore") -> list[Diagnosis]:
    """Tell the address for programs, the number of valid tokens, and the faults.

    Their tokens may be unprotected on the way to it, and some programs may not read their own sessions.
    """
    now = tokens.now_ms()
    live = [token for token in await tokens.tokens() if token.live(now)]
    counted = f"{len(live)} tokens count" if live else "no token counts, `lockgate token create` makes one"
    note = f"at {settings.url}, {counted}"
    found = Diagnosis("api", note=f"{note}; {settings.warning}" if settings.warning else note)
    if names := unsighted(config.policy, live):
        return [replace(found, problem=UNSIGHTED.format(_named(names)), next_step=SIGHT)]
    return [found]


def speaking(config: Config) -> str:
    """Return the warning about the label of programs' own words, empty if every token is cleared for it."""
    words = own_words(config.policy, "")
    return "" if words.flows_to(PUBLIC) else SPEAKING.format(words)


def failed(failure: Failure, top: Label) -> Diagnosis:
    """Return the diagnosis of a failure in the last hour."""
    label = top if failure.label is None else failure.label.join(CONFIGURED)
    at = f"last at {moment(round(failure.at * 1000))} UTC"
    return Diagnosis(failure.where, failure.cause, failure.step, at, label=label, seen=True)


async def quarantined(sessions: "Store", top: Label) -> list[Diagnosis]:
    """Return the sessions in quarantine, each with the label that its readers need."""
    return [
        _quarantined(one, await visibility_of(sessions.sessions, one.sid, top))
        for one in await sessions.quarantine.quarantined()
    ]


def _quarantined(one: Quarantined, label: Label) -> Diagnosis:
    failing = "cannot be worked" if one.doing is Doing.WORK else "takes nothing in"
    if one.error == SchemaError.__name__:
        cause, mend = "its records cannot be read", UNREADABLE
    else:
        cause, mend = f"an unexpected {one.error} at {one.where}", "mend that, its traceback is in the log"
    times = "once, at" if one.tries == 1 else f"{one.tries} times since"
    tried = f"tried {times} {moment(one.since)} UTC, again in {ceil(one.rest / 1000)} s"
    told = f"it {failing}: {cause}; {tried}"
    step = f"{mend}; then `lockgate sessions release {one.sid}` has it tried at once"
    details: dict[str, JsonValue] = {"session": one.sid, "error": one.error, "where": one.where, "tries": one.tries}
    return Diagnosis(f"session {one.sid}", told, step, details=details, label=label)


def line(finding: Diagnosis) -> str:
    """Return a finding as a line for people."""
    if "fixed" in finding.details:
        return f"fixed {finding.subject}: {finding.details['fixed']}"
    if not finding.problem:
        return f"ok    {finding.subject}{f', {finding.note}' if finding.note else ''}"
    parts = (finding.problem, finding.next_step, finding.note)
    word = "seen" if finding.seen else "mend"
    return f"{word}  {finding.subject}: {', '.join(part for part in parts if part)}"
