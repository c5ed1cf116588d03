"""The answers of `lockgate init`: frozen values, and the checks of the texts that become one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.config.channels import ChannelsSettings
from bot.config.model import OFFLINE, Config
from policy.document.model import Document
from policy.errors import LabelTextError
from policy.labels import PUBLIC, parse
from policy.request import Role

MOST_CAUTIOUS: Final = str(PUBLIC)
"""The label that every question about one offers first."""


class ModelKind(StrEnum):
    """The kinds of models to choose from."""

    OFFLINE = "offline"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    COMPATIBLE = "compatible"
    OLLAMA = "ollama"

    @property
    def addressed(self) -> bool:
        """Whether it is asked at an address that the operator names."""
        return self in {ModelKind.COMPATIBLE, ModelKind.OLLAMA}


class PlatformKind(StrEnum):
    """The platforms to choose from."""

    NONE = "none"
    TELEGRAM = "telegram"
    SLACK = "slack"


SPEAKS_OPENAI: Final = "openai-chat"
"""The provider in the name of a model that another server has."""

MODELS: Final[Mapping[ModelKind, str]] = MappingProxyType(
    {
        ModelKind.OPENAI: "openai:gpt-5",
        ModelKind.ANTHROPIC: "anthropic:claude-sonnet-4-5",
        ModelKind.OLLAMA: f"{SPEAKS_OPENAI}:qwen3",
    }
)
"""The model that is offered first, by its kind."""

KEYS: Final[Mapping[ModelKind, str]] = MappingProxyType(
    {ModelKind.OPENAI: "OPENAI_API_KEY", ModelKind.ANTHROPIC: "ANTHROPIC_API_KEY"}
)
"""The variable that the key is in by itself, by the kind of the model."""

OLLAMA: Final = "http://127.0.0.1:11434/v1"
"""The address of Ollama on its own machine."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The model of turns: its name in config.yaml, and the clearance of its provider.

    `address` and `key` are for a server other than the provider's own. `key` is the variable with the key, empty for
    none.
    """

    name: str = OFFLINE
    address: str = ""
    key: str = ""
    clearance: str = MOST_CAUTIOUS

    @property
    def kind(self) -> ModelKind:
        """Which of the choices it is."""
        provider = self.name.partition(":")[0]
        if self.name == OFFLINE:
            return ModelKind.OFFLINE
        if self.address:
            return ModelKind.OLLAMA if self.address == OLLAMA else ModelKind.COMPATIBLE
        return ModelKind.ANTHROPIC if provider == "anthropic" else ModelKind.OPENAI


@dataclass(frozen=True, slots=True)
class PlatformAnswer:
    """A platform: the variables with its tokens, and the highest label that may be sent there.

    `app_token` is Slack's alone. `address` is empty for the platform's own server.
    """

    kind: PlatformKind
    token: str
    app_token: str = ""
    address: str = ""
    classification: str = MOST_CAUTIOUS


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """A shared chat of a platform, and the highest label that may be sent there."""

    kind: PlatformKind
    chat: str
    workspace: str = ""
    classification: str = MOST_CAUTIOUS


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers. `owner` is the account that becomes the owner's, empty for none."""

    model: ModelAnswer = field(default_factory=ModelAnswer)
    platform: PlatformAnswer | None = None
    owner: str = ""
    group: GroupAnswer | None = None


TOKENS: Final[Mapping[PlatformKind, tuple[str, str]]] = MappingProxyType(
    {PlatformKind.TELEGRAM: ("TELEGRAM_TOKEN", ""), PlatformKind.SLACK: ("SLACK_TOKEN", "SLACK_APP_TOKEN")}
)
"""The variables that are offered first, by platform."""


def current_model(config: Config) -> ModelAnswer:
    """Return the model of a configuration."""
    said = config.model.provider(config.model.name)
    clearance = config.policy.provider(config.model.name)
    return ModelAnswer(config.model.name, said.base_url or "", said.key or "", str(clearance))


def current_platform(channels: ChannelsSettings, policy: Document, kind: PlatformKind) -> PlatformAnswer | None:
    """Return a platform of a configuration, None if it is not listened to."""
    entry = policy.channels.get(kind.value)
    classification = MOST_CAUTIOUS if entry is None else str(entry.classification)
    if kind is PlatformKind.TELEGRAM and (telegram := channels.telegram) is not None:
        return PlatformAnswer(kind, telegram.token, "", telegram.base_url or "", classification)
    if kind is PlatformKind.SLACK and (slack := channels.slack) is not None:
        return PlatformAnswer(kind, slack.token, slack.app_token, slack.base_url or "", classification)
    return None


def owners(policy: Document, kind: PlatformKind) -> tuple[str, ...]:
    """Return the accounts of owners at a platform."""
    people = (person for person in policy.principals.values() if person.role is Role.OWNER)
    return tuple(one for person in people for one in person.accounts if one.startswith(f"{kind.value}:"))


_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


def variable(text: str) -> str:
    """Return the name of an environment variable.

    Raises ValueError: it is written in another way, as a key that was pasted is.
    """
    if not _VARIABLE.fullmatch(text):
        raise ValueError("write the name of a variable in capitals, such as OPENAI_API_KEY; the key stays in there")
    return text


def optional_variable(text: str) -> str:
    """Return the name of an environment variable, empty for `none`. Raises ValueError: as `variable`."""
    return "" if text in {"", "none"} else variable(text)


def address(text: str) -> str:
    """Return the address of a server. Raises ValueError: it is not one, or holds a password."""
    if not re.fullmatch(r"https?://[^\s/@]+(?:/[^\s@]*)?", text):
        raise ValueError("an address begins with https:// or http://, and holds no password")
    return text


def optional_address(text: str) -> str:
    """Return the address of a server, empty for `none`. Raises ValueError: as `address`."""
    return "" if text in {"", "none"} else address(text)


def label(text: str) -> str:
    """Return a label without `~`, as text. Raises ValueError: it is none."""
    try:
        found = parse(text)
    except LabelTextError as error:
        raise ValueError(str(error)) from None
    if found.untrusted:
        raise ValueError("write the label without `~`")
    return str(found)


def model_name(text: str) -> str:
    """Return the name of a model, as a provider has it. Raises ValueError: it is empty or has a space."""
    if not text or re.search(r"\s", text):
        raise ValueError("write the model's name as the provider does, such as gpt-5")
    return text


_ACCOUNTS: Final = MappingProxyType(
    {
        PlatformKind.TELEGRAM: (r"telegram:[0-9]+", "telegram:4711"),
        PlatformKind.SLACK: (r"slack:[A-Z0-9]+:[A-Z0-9]+", "slack:T0123ABCD:U0456EFGH"),
    }
)


def account(kind: PlatformKind, text: str) -> str:
    """Return an account of a platform. Raises ValueError: it is written in another way."""
    form, example = _ACCOUNTS[kind]
    if not re.fullmatch(form, text):
        raise ValueError(f"that is not an account there, write one as `{example}`")
    return text
