"""The models of the configuration, made ready to be asked.

`offline` is ours; any other name is `provider:model` as pydantic-ai knows it. A key comes from the environment
alone, or for an agent from the secret that it names. One that a provider's own address would get is never sent to
another address: a `base_url` gets the key that `key` names, or none.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import httpx2
from pydantic_ai import models
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from bot.access.agents import AgentSnapshot
from bot.agent import offline
from bot.config.model import OFFLINE, ModelSettings, ProviderSettings
from bot.core.errors import ConfigError
from bot.core.faults import place
from bot.core.trust import trust
from policy.errors import nearest

Maker = Callable[[str], Model]

Credential = Callable[[str], str | None]
"""Returns the value of a secret, None for an unknown name."""

KEYS: Final = MappingProxyType(
    {
        "openai": "OPENAI_API_KEY",
        "openai-chat": "OPENAI_API_KEY",
        "openai-responses": "OPENAI_API_KEY",
        "anthropic": "ANTHROPIC_API_KEY",
    }
)
"""The providers that take a `base_url`, a `key` and our times, with the variable each one's key is in by itself."""

_EXTRAS: Final = MappingProxyType({"openai-chat": "openai", "openai-responses": "openai"})
# As the library names the variable that is missing, and the package.
_VARIABLE: Final = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")
_PACKAGE: Final = re.compile(r"pydantic-ai-slim\[([a-z-]+)\]")
_NO_KEY: Final = "none"
_FREE: Final = ProviderSettings(input_price=0, output_price=0)


@dataclass(frozen=True, slots=True)
class Seat:
    """A model to be asked: its name in the configuration, the model itself, and its settings.

    `credential` is the secret that is its key, empty for the usual key.
    """

    name: str
    model: Model
    settings: ProviderSettings
    credential: str = ""

    @property
    def sees(self) -> bool:
        """Whether it takes pictures: by the configuration, else by the library's knowledge."""
        said = self.settings.pictures
        return self.model.profile.get("supports_image_input", True) if said is None else said

    @property
    def address(self) -> str:
        """Where it is asked, host and port, empty for one of ours."""
        return place(self.model.base_url)

    @property
    def key(self) -> str:
        """Where its key is, for operators."""
        said = self.settings
        if self.credential:
            return f"the secret `{self.credential}`"
        if said.base_url is not None and said.key is None:
            return "an environment variable, and its name into `key` beside `base_url`"
        variable = said.key or KEYS.get(self.name.partition(":")[0])
        return f"the environment variable {variable}" if variable else "the environment"


@dataclass(frozen=True, slots=True)
class Seats:
    """The models in the order they are asked, those that are asked where people chose one, and their connections.

    `make` makes the models of an agent; it blocks.
    """

    all: tuple[Seat, ...]
    choices: tuple[Seat, ...]
    client: httpx2.AsyncClient
    make: Callable[[AgentSnapshot], tuple[Seat, ...]]

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()


def _no_credential(_name: str) -> str | None:
    return None


def seats(
    settings: ModelSettings,
    environment: Mapping[str, str],
    maker: Maker | None = None,
    *,
    credential: Credential = _no_credential,
) -> Seats:
    """Return the models of a configuration; `maker` makes them in another way. It blocks while it reads certificates.

    `credential` returns the value of a secret, None for an unknown name.

    Raises ConfigError: a provider is unknown, its package is not installed, or its key is missing.
    """
    # A redirect would carry the context to a host that nobody configured.
    client = httpx2.AsyncClient(
        verify=trust(),
        timeout=httpx2.Timeout(settings.first_byte_seconds, connect=settings.connect_seconds),
        follow_redirects=False,
    )
    make = maker or partial(_make, settings=settings, environment=environment, client=client)

    def named(agent: AgentSnapshot) -> tuple[Seat, ...]:
        keyed = maker or partial(make, key=_secret(agent, credential))
        return tuple(_seat(agent, name, settings, keyed) for name in agent.models)

    chain, choices = (
        tuple(Seat(name, make(name), _said(settings, name)) for name in names)
        for names in (settings.chain, settings.choices)
    )
    return Seats(chain, choices, client, named)


def _secret(agent: AgentSnapshot, credential: Credential) -> str:
    """Return the key that an agent's models are asked with, empty for the usual ones.

    Raises ConfigError: it names a secret there is not.
    """
    if not agent.credential:
        return ""
    key = credential(agent.credential)
    if key is None:
        told = f"agent `{agent.name}` needs the secret `{agent.credential}`"
        raise ConfigError(told, next_step=f"add `{agent.credential}` to `secrets`, or reset its conversations")
    return key


def _seat(agent: AgentSnapshot, name: str, settings: ModelSettings, make: Maker) -> Seat:
    """Return a model of an agent, also one that is not configured any more.

    Raises ConfigError: it had an address or a key of its own, which are not known any more; or it cannot be made.
    """
    if name in agent.addressed and not settings.addressed(name):
        told = f"agent `{agent.name}` asks model `{name}`, whose address or key is not configured any more"
        raise ConfigError(told, next_step=f"add `{name}` to `model.choices` and `model.providers`")
    return Seat(name, make(name), _said(settings, name), agent.credential)


def _said(settings: ModelSettings, name: str) -> ProviderSettings:
    return _FREE if name == OFFLINE and name not in settings.providers else settings.provider(name)


def _make(
    name: str, *, settings: ModelSettings, environment: Mapping[str, str], client: httpx2.AsyncClient, key: str = ""
) -> Model:
    """Return a model; `key` is the one that it is asked with, empty for the usual one."""
    if name == OFFLINE:
        return offline.OfflineModel()
    said = settings.provider(name)
    provider = name.partition(":")[0]
    try:
        infer_provider_class(provider)
        if provider in KEYS:
            key = key or _key(name, said, environment)
            return models.infer_model(name, lambda kind: _provider(kind, said.base_url, key, client))
        if key:
            known = ", ".join(f"`{kind}`" for kind in KEYS)
            raise ConfigError(f"model `{name}` takes no key of an agent", next_step=f"only {known} do")
        if said.base_url is not None or said.key is not None:
            known = ", ".join(f"`{kind}`" for kind in KEYS)
            raise ConfigError(f"model `{name}` takes neither `base_url` nor `key`", next_step=f"only {known} do")
        return models.infer_model(name, infer_provider)
    except ImportError as error:
        # Several providers share a package.
        named = _PACKAGE.search(str(error))
        extra = named[1] if named else _EXTRAS.get(provider, provider)
        package = f"lockgate[{extra}]" if extra in KEYS else f"pydantic-ai-slim[{extra}]"
        raise ConfigError(
            f"model `{name}` needs a package that is not installed", next_step=f"install `{package}`"
        ) from None
    except UserError as error:
        missing = [one for one in dict.fromkeys(_VARIABLE.findall(str(error))) if not environment.get(one)]
        if missing:
            variables = " or ".join(missing)
            raise ConfigError(
                f"model `{name}` needs {variables}", next_step=f"set {variables} in the environment"
            ) from None
        raise ConfigError(
            f"model `{name}` cannot be used", next_step="check its name and that its key is in the environment"
        ) from None
    except ValueError:
        known = {known.partition(":")[0] for known in models.known_model_names()} | {*KEYS}
        raise ConfigError(
            f"model `{name}` has an unknown provider `{provider}`{nearest(provider, known)}",
            next_step="name the provider as docs/operating.md shows, or use `offline`",
        ) from None


def _key(name: str, said: ProviderSettings, environment: Mapping[str, str]) -> str:
    """Return the key of a model; an address of its own that names no variable gets none.

    Raises ConfigError: the variable is not set.
    """
    if said.base_url is not None and said.key is None:
        return _NO_KEY
    variable = said.key or KEYS[name.partition(":")[0]]
    key = environment.get(variable)
    if not key:
        raise ConfigError(f"model `{name}` needs a key", next_step=f"set {variable} in the environment")
    return key


def _provider(kind: str, base_url: str | None, key: str, client: httpx2.AsyncClient) -> Provider[Any]:
    if kind == "anthropic":
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicProvider(api_key=key, base_url=base_url, http_client=client)
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIProvider(api_key=key, base_url=base_url, http_client=client)
