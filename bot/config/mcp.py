"""`mcp_servers:`: the MCP servers, how each is reached, and its tools with their arguments.

Names, descriptions and arguments of tools stand here and are never taken from the server (ADR 0009). Their
labels stand under `policy:`. A tool is offered as `server__tool`, in the letters that providers take.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from bot.config.fields import Block
from bot.config.references import OPENING, REFERENCE
from policy.conditions.expressions import BOOL, DOUBLE, INT, STRING, TEXTS
from policy.errors import Problem

_SERVER: Final = re.compile(r"[a-z][a-z0-9_-]{0,29}\Z")
_TOOL: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}\Z")
_ARGUMENT: Final = re.compile(r"[A-Za-z0-9_.$-]{1,64}\Z")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_URL: Final = re.compile(r"https?://[^\s@]+\Z")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64
"""Characters of the longest tool name that all providers take."""

_DEPTH: Final = 8

_SIMPLE: Final[Mapping[str, str]] = MappingProxyType(
    {"string": STRING, "integer": INT, "number": DOUBLE, "boolean": BOOL}
)
"""The names that conditions use for the types of arguments that they can look at."""


def _matching(pattern: re.Pattern[str], kind: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.match(value):
            raise ValueError(f"`{value[:80]}` is not the name of {kind}")
        return value

    return AfterValidator(check)


def _url(value: str) -> str:
    if not _URL.match(value):
        raise ValueError("a server's address begins with `http://` or `https://` and holds no password")
    if OPENING in value:
        raise ValueError("a secret belongs into `headers`, an address is written into logs")
    try:
        _ = urlsplit(value).port
    except ValueError:
        raise ValueError("a server's address names a host, and a port if it has another than usual") from None
    return value


def _argument(value: str) -> str:
    if OPENING in value:
        raise ValueError("a secret belongs into `env`, others on this machine can read the arguments of a process")
    return value


def _handed(value: str) -> str:
    if value.count(OPENING) != len(REFERENCE.findall(value)):
        raise ValueError("a secret is referred to as `${secret:name}`")
    return value


_Handed = Annotated[str, AfterValidator(_handed)]
_ArgumentName = Annotated[str, _matching(_ARGUMENT, "an argument")]


class McpArgument(Block):
    """One argument of a tool: `values` are the only texts allowed, `items` describes a list's, `fields` an object's.

    `content` means that a text chooses nothing, so that a held result may stand in its place.
    """

    type: Literal["string", "integer", "number", "boolean", "array", "object"]
    description: str = Field(default="", max_length=2000)
    optional: bool = False
    content: bool = False
    values: list[str] | None = Field(default=None, min_length=1, max_length=200)
    items: "McpArgument | None" = None
    fields: "dict[_ArgumentName, McpArgument] | None" = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for name, kind in (("values", "string"), ("items", "array"), ("fields", "object")):
            given = getattr(self, name) is not None
            if given and self.type != kind:
                raise ValueError(f"`{name}` belongs to type `{kind}` only")
            if not given and self.type == kind and kind != "string":
                raise ValueError(f"type `{kind}` needs `{name}`, parts that are not described here are not passed on")
        if self.content and (self.type != "string" or self.values is not None):
            raise ValueError("`content` belongs to type `string` without `values`, others choose something")
        if _depth(self) > _DEPTH:
            raise ValueError(f"arguments nest at most {_DEPTH} deep")
        return self


class McpToolSettings(Block):
    """One tool that may be called; an unset field means the worst case."""

    description: str = Field(min_length=1, max_length=4000)
    arguments: dict[_ArgumentName, McpArgument] = Field(default_factory=dict[str, McpArgument])
    effect: Literal["none", "read", "write", "send"]
    consequential: bool = True
    repeatable: bool = False


class McpServerSettings(Block):
    """One server: a `command` that is started here, or a `url` that is there."""

    command: str | None = Field(default=None, min_length=1)
    args: list[Annotated[str, AfterValidator(_argument)]] = Field(default_factory=list[str])
    env: dict[Annotated[str, _matching(_VARIABLE, "a variable")], _Handed] = Field(default_factory=dict[str, str])
    url: Annotated[str, AfterValidator(_url)] | None = None
    headers: dict[Annotated[str, _matching(_HEADER, "a header")], _Handed] = Field(default_factory=dict[str, str])
    start_seconds: int = Field(default=30, ge=1, le=600)
    call_seconds: int = Field(default=60, ge=1, le=3600)
    tools: dict[Annotated[str, _matching(_TOOL, "a tool")], McpToolSettings]

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("a server has either `command` or `url`")
        if self.url is not None and (self.args or self.env):
            raise ValueError("`args` and `env` belong to a `command`")
        if self.command is not None and self.headers:
            raise ValueError("`headers` belong to a `url`")
        if self.url is not None and not self.host:
            raise ValueError("a server's address names a host, and a port if it has another than usual")
        if self.url is not None and any(map(REFERENCE.search, self.headers.values())) and not confidential(self.url):
            raise ValueError("a secret is sent over https:// alone, or within your own network")
        return self

    @property
    def handed(self) -> Mapping[str, str]:
        """The values handed to the server beside its calls: its variables, or the headers of every request."""
        return self.env if self.url is None else self.headers

    @property
    def host(self) -> str:
        """The host that a secret would be sent to, with the port unless it is 443.

        Empty for a process of this machine.
        """
        if self.url is None:
            return ""
        parts = urlsplit(self.url)
        name = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = f"[{name}]" if ":" in name else name
        return host if port == 443 else f"{host}:{port}"  # noqa: PLR2004 - as `secrets.NAME.hosts` is written


ServerName = Annotated[str, _matching(_SERVER, "a server, use up to 30 lower-case letters, digits, `_` and `-`")]


def offered_name(server: str, tool: str) -> str:
    """Return the name under which a server's tool is offered and named in rules."""
    return f"{server}__{_OTHER.sub('_', tool)}"


def tool_names(raw: object) -> tuple[str, ...]:
    """Return the names of all tools of a section that is not validated yet, as far as it has the right shape."""
    return tuple(offered_name(server, tool) for server, tool, _ in _listed(raw))


def tool_arguments(raw: object) -> dict[str, dict[str, str]]:
    """Return all tools of such a section, each with its arguments and the types that conditions know them by.

    One that conditions cannot look at, such as an object, has a type they do not know.
    """
    return {
        offered_name(server, tool): {
            str(name): _condition_type(argument) for name, argument in _mapping(_mapping(said).get("arguments")).items()
        }
        for server, tool, said in _listed(raw)
    }


def server_names(raw: object) -> tuple[str, ...]:
    """Return the names of all servers of a section that is not validated yet."""
    return tuple(map(str, _mapping(raw)))


def naming_problems(raw: object, taken: Iterable[str], labelled: object) -> Iterator[Problem]:
    """Yield the faults of a section beside its shape: names given twice or too long, servers without a label.

    `taken` are the names of other tools, `labelled` is the section `policy.mcp_servers`.
    """
    counts = Counter((*tool_names(raw), *taken))
    for server, tool, _ in _listed(raw):
        name = offered_name(server, tool)
        if counts[name] > 1:
            yield Problem(("mcp_servers", server, "tools", tool), f"another tool is called `{name}` too")
        if len(name) > _LONGEST:
            said = f"`{name}` is longer than {_LONGEST} characters, give the server a shorter name"
            yield Problem(("mcp_servers", server, "tools", tool), said)
    known = server_names(labelled)
    for server in server_names(raw):
        if server not in known:
            yield Problem(("mcp_servers", server), f"`{server}` has no label, add it to `policy.mcp_servers`")


def confidential(url: str) -> bool:
    """Say whether requests to an address are encrypted, or stay in this machine or its network."""
    parts = urlsplit(url)
    name = parts.hostname or ""
    try:
        return parts.scheme == "https" or ipaddress.ip_address(name).is_private
    except ValueError:
        # A name without a dot is none of the public ones.
        return "." not in name


def _listed(raw: object) -> Iterator[tuple[str, str, object]]:
    for server, entry in _mapping(raw).items():
        for tool, described in _mapping(_mapping(entry).get("tools")).items():
            yield str(server), str(tool), described


def _condition_type(argument: object) -> str:
    kind = str(_mapping(argument).get("type"))
    if kind == "array" and _mapping(_mapping(argument).get("items")).get("type") == "string":
        return TEXTS
    return _SIMPLE.get(kind, kind)


def _mapping(raw: object) -> Mapping[object, object]:
    return cast("Mapping[object, object]", raw) if isinstance(raw, Mapping) else {}


def _depth(argument: McpArgument) -> int:
    below = [*(argument.fields or {}).values(), *([] if argument.items is None else [argument.items])]
    return 1 + max((_depth(one) for one in below), default=0)
