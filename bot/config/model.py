"""The schema of config.yaml besides its policy: every field with its default, its unit and its range.

Unknown fields are errors. No secret stands here: keys of model providers come from the environment, and `secrets`
only names where a tool's are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, JsonValue, model_validator

from bot.config.accounts.oauth import McpAccountsSettings
from bot.config.agents import AgentName, AgentSettings
from bot.config.channels import ChannelsSettings
from bot.config.fields import Block, PrivateAddress, Variable, WebAddress, private_addresses
from bot.config.file.source import DEFAULT_DATA
from bot.config.files import FilesSettings, TranscriberSettings
from bot.config.imports import ImportsSettings
from bot.config.knowledge import KnowledgeSettings
from bot.config.mcp import McpServerSettings, ServerName
from bot.config.observability.metrics import MetricsSettings
from bot.config.observability.telemetry import TelemetrySettings
from bot.config.plugins import PluginName, ToolsSettings
from bot.config.runs import RunSettings
from bot.config.secrets import SecretName, SecretSettings
from bot.config.workflows import WorkflowSettings
from bot.sessions.limits import SessionLimits
from bot.sessions.workflows.definitions import WorkflowDefinition
from policy.document.model import Document
from policy.errors import nearest

INSTRUCTIONS: Final = (
    "You are the agent of a Lockgate installation. Answer briefly and plainly. "
    "Use a tool when it helps; when a call is refused, say so and name what the refusal offers instead."
)

OFFLINE: Final = "offline"
"""The model that needs neither key nor network."""

RETRY_SECONDS: Final = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800)
"""How long a webhook waits before each further try, unless said otherwise: about 16 hours in all."""

_STORE_ADDRESS: Final = re.compile(r"(?:redis|valkey)s?(?:\+sentinel|\+cluster)?://|unix://")


def _store_url(url: str | None) -> str | None:
    if url is not None and not _STORE_ADDRESS.match(url):
        raise ValueError(
            "a store's address begins with `redis://`, `rediss://`, `redis+sentinel://`, `rediss+sentinel://`,"
            " `redis+cluster://`, `rediss+cluster://` or `unix://`"
        )
    if url is not None and ("@" in url or "password=" in url):
        raise ValueError(
            "a password does not belong in the configuration, give the whole address in LOCKGATE_STORE_URL"
        )
    return url


def _model_name(name: str) -> str:
    if name != OFFLINE and not all(name.partition(":")):
        raise ValueError(f"`{name}` is not a model, write `offline` or provider and model as in `openai:gpt-5`")
    return name


class StoreSettings(Block):
    """Where sessions are kept: `url` null starts the embedded server in the data directory."""

    url: Annotated[str | None, AfterValidator(_store_url)] = None
    lease_seconds: int = Field(default=30, ge=2, le=3600)


LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

_ModelName = Annotated[str, AfterValidator(_model_name)]
_Tokens = Annotated[int | None, Field(default=None, ge=1000, le=1_000_000_000_000)]
_WEEK: Final = 60 * 24 * 7
"""Minutes."""

_Price = Annotated[float | None, Field(default=None, ge=0, le=1_000_000, allow_inf_nan=False)]


class ProviderSettings(Block):
    """The settings of one model beside its name.

    Prices are for a million tokens, in the currency the operator counts in; null is unknown, which is not free.
    """

    base_url: WebAddress | None = None
    """Another server that speaks the provider's protocol, null for the provider's own."""
    key: Variable | None = None
    """The environment variable that holds its key."""
    stream: bool = True
    pictures: bool | None = None
    """Whether it takes pictures; null leaves that to known facts about the model."""
    context_tokens: int | None = Field(default=None, ge=1000, le=100_000_000)
    """Its window in tokens, null where the library knows it by the model's name."""
    output_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    input_price: _Price = None
    output_price: _Price = None


class ModelSettings(Block):
    """The models of turns: `offline` needs no key and no network."""

    name: _ModelName = OFFLINE
    fallback: tuple[_ModelName, ...] = Field(default=(), strict=False, max_length=10)
    """The models that are asked in turn when the one before does not answer."""
    choices: tuple[_ModelName, ...] = Field(default=(), strict=False, max_length=20)
    """Further models that a conversation may be switched to."""
    instructions: str = Field(default=INSTRUCTIONS, max_length=100_000)
    connect_seconds: float = Field(default=5, gt=0, le=600)
    """The time until a connection stands."""
    first_byte_seconds: float = Field(default=60, gt=0, le=3600)
    """The time until the first byte of an answer."""
    answer_seconds: float = Field(default=300, gt=0, le=3600)
    """The time for the whole of an answer with its `retries`."""
    retries: int = Field(default=2, ge=0, le=10)
    retry_wait_seconds: float = Field(default=20, ge=0, le=600)
    """A provider that asks to wait longer is not waited for."""
    providers: Mapping[_ModelName, ProviderSettings] = Field(default_factory=dict, max_length=100)

    @property
    def chain(self) -> tuple[str, ...]:
        """The models in the order they are asked."""
        return (self.name, *self.fallback)

    @property
    def all(self) -> tuple[str, ...]:
        """Every model that may be asked: a conversation may be switched to each of them."""
        return (*self.chain, *self.choices)

    def provider(self, name: str) -> ProviderSettings:
        """Return the settings of a model, the defaults if it has none."""
        return self.providers.get(name, ProviderSettings())

    def addressed(self, name: str) -> bool:
        """Say whether a model has an address or a key of its own."""
        said = self.provider(name)
        return said.base_url is not None or said.key is not None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in self.all:
            if self.all.count(name) > 1:
                raise ValueError(f"`{name}` is named twice, name it once in `name`, `fallback` and `choices`")
        for name in self.providers:
            if name not in self.all:
                close = nearest(name, self.all)
                raise ValueError(f"`providers` says something of `{name}`, which is not asked{close}")
        return self


class LogSettings(Block):
    """The operational log: `level` is the least of the lines that are written, unless `--log-level` says another."""

    level: LogLevel = "info"


class Limits(Block):
    """Limits per turn, per session, per message and per day; null is no limit.

    Tokens of a day are those that models read and write. Background sessions, and tokens of a person or a chat, are
    counted for each level and its compartments.
    """

    model_steps: int = Field(default=20, ge=1, le=1000)
    turn_seconds: int = Field(default=1800, ge=1, le=7 * 24 * 3600)
    turns_alone: int | None = Field(default=50, ge=1, le=100_000)
    """The number of turns that may end in a row without a person's message."""
    session_tokens: _Tokens = None
    cancel_grace_seconds: float = Field(default=5, ge=0, le=600)
    drain_seconds: float = Field(default=20, ge=0, le=3600)
    inbox_items: int = Field(default=100, ge=1, le=10_000)
    person_messages_per_minute: int = Field(default=120, ge=1, le=100_000)
    message_characters: int = Field(default=100_000, ge=1, le=1_000_000)
    approval_minutes: Annotated[int, Field(ge=1, le=_WEEK)] | None = 10
    """The lifetime of a question to people; null lets it wait for ever."""
    question_minutes: int = Field(default=24 * 60, ge=1, le=_WEEK)
    simulations_per_minute: int = Field(default=20, ge=1, le=10_000)
    background_children: int = Field(default=5, ge=1, le=100)
    background_live: int = Field(default=8, ge=1, le=1000)
    background_depth: int = Field(default=2, ge=1, le=5)
    background_minutes: int = Field(default=10, ge=1, le=24 * 60)
    endorsed_bits: int = Field(default=40, ge=0, le=1000)
    delivery_hours: int = Field(default=24, ge=1, le=24 * 30)
    daily_tokens: _Tokens = None
    """Tokens of all together."""
    person_daily_tokens: _Tokens = None
    """Tokens of each person."""
    chat_daily_tokens: _Tokens = None
    """Tokens of each shared chat."""

    @property
    def approval_ms(self) -> int | None:
        """The lifetime of a question to people in milliseconds, None for ever."""
        return None if self.approval_minutes is None else self.approval_minutes * 60_000

    @property
    def offer_ms(self) -> int:
        """The lifetime of an offer in milliseconds; a week where a question waits for ever."""
        return (self.approval_minutes or _WEEK) * 60_000

    @property
    def session(self) -> SessionLimits:
        """The limits of a session without limits of its own."""
        return SessionLimits(self.session_tokens, self.turn_seconds, self.turns_alone)


class WebSettings(Block):
    """Fetching web pages."""

    seconds: int = Field(default=20, ge=1, le=600)
    """The longest time of a whole fetch."""
    kilobytes: int = Field(default=2000, ge=1, le=100_000)
    """The largest page."""
    unsafe_allow_private_addresses: list[PrivateAddress] = Field(default_factory=list[str])
    """Every session may reach these addresses of the machine or its network."""

    @property
    def private(self) -> frozenset[tuple[str, int]]:
        """The allowed addresses, each with its port."""
        return private_addresses(self.unsafe_allow_private_addresses)


class SentWebhookSettings(Block):
    """The limits of webhooks of programs."""

    seconds: int = Field(default=10, ge=1, le=60)
    """The time that a receiver has to take an event."""
    retry_seconds: list[Annotated[int, Field(ge=1, le=86_400)]] = Field(
        default_factory=lambda: list(RETRY_SECONDS), max_length=20
    )
    """The waits before each further try, after which an event is given up."""
    failing_days: int = Field(default=5, ge=1, le=30)
    """A receiver that took nothing for so long is sent nothing any more."""
    per_program: int = Field(default=20, ge=1, le=1000)
    """The most webhooks of one program."""
    unsafe_allow_private_addresses: list[PrivateAddress] = Field(default_factory=list[str])
    """Every program may have events sent to these addresses of the machine or its network, also without encryption."""

    @property
    def private(self) -> frozenset[tuple[str, int]]:
        """The allowed addresses, each with its port."""
        return private_addresses(self.unsafe_allow_private_addresses)


class Settings(Block):
    """Everything but the policy, as written."""

    data_dir: str = Field(default=DEFAULT_DATA, min_length=1, max_length=4096)
    logs: LogSettings = LogSettings()
    telemetry: TelemetrySettings | None = Field(default=None)
    metrics: MetricsSettings | None = Field(default=None)
    store: StoreSettings = StoreSettings()
    model: ModelSettings = ModelSettings()
    agents: dict[AgentName, AgentSettings] = Field(default_factory=dict[str, AgentSettings], max_length=100)
    limits: Limits = Limits()
    web: WebSettings = WebSettings()
    webhooks: SentWebhookSettings = SentWebhookSettings()
    runs: RunSettings = RunSettings()
    knowledge: KnowledgeSettings = KnowledgeSettings()
    workflows: WorkflowSettings = WorkflowSettings()
    files: FilesSettings = FilesSettings()
    imports: ImportsSettings = ImportsSettings()
    transcriber: TranscriberSettings | None = Field(default=None)
    secrets: dict[SecretName, SecretSettings] = Field(default_factory=dict[str, SecretSettings])
    mcp_servers: dict[ServerName, McpServerSettings] = Field(default_factory=dict[str, McpServerSettings])
    mcp_accounts: McpAccountsSettings = McpAccountsSettings()
    channels: ChannelsSettings = ChannelsSettings()
    tools: ToolsSettings = Field(default_factory=dict[str, dict[str, JsonValue]], max_length=100)
    plugins: list[PluginName] = Field(default_factory=list[str], max_length=100)


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration in force.

    `data_dir` is absolute. `policy` is the validated document. `source` is the file it was read from, None for the
    defaults without a file; `rule_lines` are the lines of its rules. `workflows` are the definitions by name, and
    `definitions` is the folder of those that the file names.
    """

    data_dir: Path
    logs: LogSettings
    telemetry: TelemetrySettings | None
    metrics: MetricsSettings | None
    store: StoreSettings
    model: ModelSettings
    agents: Mapping[str, AgentSettings]
    limits: Limits
    web: WebSettings
    webhooks: SentWebhookSettings
    runs: RunSettings
    knowledge: KnowledgeSettings
    workflows: Mapping[str, WorkflowDefinition]
    files: FilesSettings
    imports: ImportsSettings
    transcriber: TranscriberSettings | None
    secrets: Mapping[str, SecretSettings]
    policy: Document
    mcp_servers: Mapping[str, McpServerSettings]
    mcp_accounts: McpAccountsSettings
    channels: ChannelsSettings
    tools: Mapping[str, Mapping[str, JsonValue]]
    plugins: Sequence[str]
    source: Path | None
    rule_lines: tuple[int, ...] = ()
    definitions: Path | None = None

    @property
    def folder(self) -> Path:
        """Where a relative path of the configuration begins."""
        return (Path() if self.source is None else self.source.parent).absolute()
