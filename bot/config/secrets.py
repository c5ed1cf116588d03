"""`secrets:`: where the values of secrets are, their users, and where the configuration itself refers to one.

Only names stand here. The values are read by `bot.secrets`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from bot.config.fields import Block
from bot.config.mcp import McpServerSettings, offered_name
from bot.config.references import NAME, REFERENCE
from policy.errors import Problem, nearest

_HOST: Final = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z0-9_-]+(?::[1-9][0-9]{0,4})?|\[[0-9a-f:]+\](?::[1-9][0-9]{0,4})?")


def _host(host: str) -> str:
    if not _HOST.fullmatch(host):
        raise ValueError(f"`{host}` is not a host, write `api.example.com` or, for another port than 443, with `:port`")
    return host


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"`{name}` is not a name, use up to 64 lower-case letters, digits, `_` and `-`")
    return name


class SecretSettings(Block):
    """A secret by its name: where its value is, and which tools may use it for which hosts.

    `tools` may name all tools of an MCP server, as `server__*`.
    """

    env: str | None = Field(default=None, min_length=1, max_length=256)
    file: str | None = Field(default=None, min_length=1, max_length=4096)
    tools: list[str] = Field(default_factory=list[str])
    hosts: list[Annotated[str, AfterValidator(_host)]] = Field(default_factory=list[str])

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("give either `env`, a variable's name, or `file`, a path; a value never stands here")
        return self


SecretName = Annotated[str, AfterValidator(_name)]


def granted(
    secrets: Mapping[str, SecretSettings], servers: Mapping[str, McpServerSettings]
) -> dict[str, SecretSettings]:
    """Return the secrets with `server__*` replaced by the tools of that server, if it has any."""
    all_of = {_all_of(server): [offered_name(server, tool) for tool in one.tools] for server, one in servers.items()}
    return {
        name: secret.model_copy(update={"tools": [tool for one in secret.tools for tool in all_of.get(one) or [one]]})
        for name, secret in secrets.items()
    }


def grant_problems(
    secrets: Mapping[str, SecretSettings], servers: Mapping[str, McpServerSettings], tools: Collection[str]
) -> Iterator[Problem]:
    """Yield the faults of the tools that secrets name, and of the secrets that servers refer to.

    `tools` are the names of all tools. A secret that could never be used is refused here already.
    """
    known = {*tools, *map(_all_of, servers)}
    for name, secret in secrets.items():
        for place, tool in enumerate(secret.tools):
            if tool not in known:
                yield Problem(("secrets", name, "tools", place), f"unknown tool `{tool}`{nearest(tool, known)}")
    usable = granted(secrets, servers)
    for server, settings in servers.items():
        for field, text in settings.handed.items():
            path = ("mcp_servers", server, "headers" if settings.url else "env", field)
            for name in REFERENCE.findall(text):
                if problem := _unusable(name, usable, server, settings):
                    yield Problem(path, problem)


def _unusable(name: str, secrets: Mapping[str, SecretSettings], server: str, settings: McpServerSettings) -> str:
    """Return why a server may not be given a secret, empty if it may."""
    secret = secrets.get(name)
    if secret is None:
        return f"unknown secret `{name}`{nearest(name, secrets)}"
    for tool in settings.tools:
        if (offered := offered_name(server, tool)) not in secret.tools:
            return f"`{offered}` may not use the secret `{name}`, add `{_all_of(server)}` to `secrets.{name}.tools`"
    if settings.host and settings.host not in secret.hosts:
        return f"the secret `{name}` is not for `{settings.host}`, add it to `secrets.{name}.hosts`"
    return ""


def _all_of(server: str) -> str:
    return f"{server}__*"
