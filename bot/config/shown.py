"""The parts of a configuration that may be shown: values by their paths, but no value that may hold a secret.

A text is shown only if its path stands here: a new one is hidden until its author states that it holds no secret. Of an
address the machine is shown, as user, path and query may be secrets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

from bot.config.fields import Block
from bot.config.model import Config, Settings
from bot.core.faults import place

GIVEN: Final = "(given)"

_ENTRY: Final = "*"
_PLAIN: Final = frozenset(
    {
        "agents.*.chats.*",
        "agents.*.credential",
        "agents.*.model.fallback.*",
        "agents.*.model.name",
        "agents.*.people.*",
        "agents.*.tools.*",
        "channels.slack.app_token",
        "channels.slack.http.host",
        "channels.slack.http.secret",
        "channels.slack.install.client_id",
        "channels.slack.install.client_secret",
        "channels.slack.install.host",
        "channels.slack.token",
        "channels.telegram.token",
        "channels.telegram.webhook.host",
        "channels.telegram.webhook.secret",
        "data_dir",
        "files.bucket.key",
        "files.bucket.name",
        "files.bucket.prefix",
        "files.bucket.region",
        "files.bucket.secret",
        "files.bucket.token",
        "imports.keys.*",
        "logs.level",
        "mcp_accounts.host",
        "mcp_servers.*.command",
        "mcp_servers.*.oauth.accounts",
        "mcp_servers.*.oauth.client_id",
        "mcp_servers.*.oauth.client_secret",
        "mcp_servers.*.oauth.hosts.*",
        "mcp_servers.*.oauth.scopes.*",
        "metrics.clearance",
        "metrics.host",
        "model.choices.*",
        "model.fallback.*",
        "model.name",
        "model.providers.*.key",
        "plugins.*",
        "runs.records.clearance",
        "runs.records.folder",
        "runs.time_zone",
        "secrets.*.env",
        "secrets.*.file",
        "secrets.*.hosts.*",
        "secrets.*.tools.*",
        "telemetry.clearance",
        "telemetry.headers.*",
        "transcriber.key",
        "transcriber.model",
        "web.unsafe_allow_private_addresses.*",
        "webhooks.unsafe_allow_private_addresses.*",
        "workflows.definitions",
    }
)
_ADDRESSES: Final = frozenset(
    {
        "channels.slack.base_url",
        "channels.slack.http.url",
        "channels.slack.install.url",
        "channels.telegram.base_url",
        "channels.telegram.webhook.url",
        "files.bucket.endpoint",
        "mcp_accounts.url",
        "mcp_servers.*.oauth.issuer",
        "mcp_servers.*.url",
        "model.providers.*.base_url",
        "store.url",
        "telemetry.endpoint",
        "transcriber.base_url",
    }
)
_NAMES: Final = frozenset({"mcp_servers.*.env", "mcp_servers.*.headers", "mcp_servers.*.tools"})
"""Mappings of which the names alone are shown."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as it may be shown, by its path; `changed` tells that the default is another one."""

    path: str
    value: str
    changed: bool


def sections(config: Config) -> dict[str, tuple[Shown, ...]]:
    """Return the values that may be shown of every section that is in force, but the policy."""
    defaults = Settings()
    usual = {one.path: one.value for name in Settings.model_fields for one in _leaves(name, getattr(defaults, name))}
    usual["data_dir"] = str(config.folder / defaults.data_dir)
    return {
        name: tuple(
            Shown(one.path, one.value, changed=usual.get(one.path) != one.value)
            for one in _leaves(name, getattr(config, name))
        )
        for name in Settings.model_fields
    }


def machine(address: str) -> str:
    """Return the scheme, hosts and ports of an address; of a socket on this machine its path."""
    scheme, there, _ = address.partition("://")
    if scheme == "unix":
        return f"unix://{urlsplit(address).path}"
    return f"{scheme if there else ''}://{place(address)}"


def _leaves(path: str, value: object, kind: str = "") -> Iterator[Shown]:
    """Yield the values below a path; `kind` is the path with every name of an entry left out."""
    kind = kind or path
    if isinstance(value, Block):
        for name in type(value).model_fields:
            yield from _leaves(f"{path}.{name}", getattr(value, name), f"{kind}.{name}")
    elif isinstance(value, Mapping) and value and kind not in _NAMES:
        for name, one in cast("Mapping[str, object]", value).items():
            yield from _leaves(f"{path}.{name}", one, f"{kind}.{_ENTRY}")
    else:
        yield Shown(path, _written(cast("object", value), kind), changed=False)


def _written(value: object, kind: str) -> str:
    if value is None or (isinstance(value, Mapping | list | tuple) and not value):
        return "none"
    match value:
        case bool() | int() | float():
            return str(value).lower()
        case Mapping():
            return ", ".join(cast("Mapping[str, object]", value))
        case list() | tuple():
            return ", ".join(_written(one, f"{kind}.{_ENTRY}") for one in cast("list[object]", value))
        case _ if kind in _ADDRESSES:
            return machine(str(value))
        case _:
            return str(value) if kind in _PLAIN else GIVEN
