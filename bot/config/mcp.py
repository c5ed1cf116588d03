"""`mcp_servers:`: the MCP servers, how each is reached, and its tools with their arguments.

Names, descriptions and arguments of tools stand here and are never taken from the server (ADR 0009). Their
labels stand under `policy:`. A tool is offered as `server__tool`, in the letters that providers take.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from bot.config.accounts.oauth import McpOAuthSettings, is_sealed
from bot.config.fields import Block
from bot.config.references import OPENING, REFERENCE
from bot.config.schemas.argument import ArgumentName, McpArgument
from bot.config.schemas.marks import argument_faults, making_faults, output_faults
from policy.conditions.expressions import BOOL, DOUBLE, INT, STRING, TEXTS
from policy.errors import Problem, meant

_SERVER: Final = re.compile(r"[a-z][a-z0-9_-]{0,29}\Z")
_TOOL: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}\Z")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_URL: Final = re.compile(r"https?://[^\s@]+\Z")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_NAME: Final = 64
"""Characters of the longest tool name that all providers take."""

_SIMPLE: Final[Mapping[str, str]] = MappingProxyType(
    {"string": STRING, "integer": INT, "number": DOUBLE, "boolean": BOOL}
)
"""The names that conditions use for the types of arguments that they can look at."""

_TYPES: Final[Mapping[type, str]] = MappingProxyType({str: "string", int: "integer", float: "number", bool: "boolean"})


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


class McpToolSettings(Block):
    """One tool that may be called; an unset field means the worst case.

    `output` describes its structured result; one that does not fit is an error.
    """

    description: str = Field(min_length=1, max_length=4000)
    arguments: dict[ArgumentName, McpArgument] = Field(default_factory=dict[str, McpArgument])
    effect: Literal["none", "read", "write", "send"]
    consequential: bool = True
    repeatable: bool = False
    output: McpArgument | None = None

    @model_validator(mode="after")
    def _object(self) -> Self:
        if self.output is not None and self.output.type != "object":
            raise ValueError("`output` describes a structured result, which is of type `object`")
        given = (told for one in self.arguments.values() for told in argument_faults(one))
        found = () if self.output is None else (*output_faults(self.output), *making_faults(self.output, self.effect))
        told = next(chain(given, found), None)
        if told is not None:
            raise ValueError(told)
        return self


class McpServerSettings(Block):
    """One server: a `command` that is started here, or a `url` that is there."""

    command: str | None = Field(default=None, min_length=1)
    args: list[Annotated[str, AfterValidator(_argument)]] = Field(default_factory=list[str])
    env: dict[Annotated[str, _matching(_VARIABLE, "a variable")], _Handed] = Field(default_factory=dict[str, str])
    url: Annotated[str, AfterValidator(_url)] | None = None
    headers: dict[Annotated[str, _matching(_HEADER, "a header")], _Handed] = Field(default_factory=dict[str, str])
    start_seconds: int = Field(default=30, ge=1, le=600)
    call_seconds: int = Field(default=60, ge=1, le=3600)
    oauth: McpOAuthSettings | None = None
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

    @model_validator(mode="after")
    def _asks_for_accounts(self) -> Self:
        if self.oauth is None:
            return self
        if self.url is None:
            raise ValueError("`oauth` belongs to a `url`")
        if not is_sealed(self.url):
            raise ValueError("an account's token is sent over https:// alone, or within this machine")
        if any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("the header `Authorization` is for the account's token, take it out or take out `oauth`")
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


def is_tool(name: str) -> bool:
    """Say whether a server's name for a tool may stand in the configuration."""
    return _TOOL.match(name) is not None


def is_server(name: str) -> bool:
    """Say whether a server may have this name in the configuration."""
    return _SERVER.match(name) is not None


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


def naming_problems(raw: object, taken: Iterable[str], labelled: object, lists: object) -> Iterator[Problem]:
    """Yield the faults of a section beside its shape: names given twice or too long, servers without a label.

    `taken` are the names of other tools, `labelled` is the section `policy.mcp_servers`, `lists` is `policy.lists`.
    """
    counts = Counter((*tool_names(raw), *taken))
    for server, tool, _ in _listed(raw):
        name = offered_name(server, tool)
        if counts[name] > 1:
            yield Problem(("mcp_servers", server, "tools", tool), f"another tool is called `{name}` too")
        if len(name) > LONGEST_NAME:
            said = f"`{name}` is longer than {LONGEST_NAME} characters, give the server a shorter name"
            yield Problem(("mcp_servers", server, "tools", tool), said)
    for server, tool, described in _listed(raw):
        for place, named in _lists(_mapping(described).get("output"), ("output",)):
            if named not in _mapping(lists):
                hint = meant(named, [*map(str, _mapping(lists))]) or ", add it to `policy.lists`"
                yield Problem(("mcp_servers", server, "tools", tool, *place), f"there is no list `{named}`{hint}")
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


def _lists(part: object, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the names of the lists that a described result, or a part of one, is bounded by, each with its place."""
    said = _mapping(part)
    named = _mapping(said.get("bounded")).get("list")
    if isinstance(named, str):
        yield (*place, "bounded", "list"), named
    for name, inner in _mapping(said.get("fields")).items():
        yield from _lists(inner, (*place, "fields", str(name)))
    if "items" in said:
        yield from _lists(said["items"], (*place, "items"))


def _condition_type(argument: object) -> str:
    said = _mapping(argument)
    kind = str(said.get("type") or _kind(said.get("values")))
    if kind == "array" and _mapping(_mapping(argument).get("items")).get("type") == "string":
        return TEXTS
    return _SIMPLE.get(kind, kind)


def _kind(values: object) -> str:
    """Return the type of a list of values, empty if they are of several."""
    found = {type(value) for value in cast("list[object]", values)} if isinstance(values, list) else set[type]()
    return _TYPES.get(found.pop(), "") if len(found) == 1 else ""


def _mapping(raw: object) -> Mapping[object, object]:
    return cast("Mapping[object, object]", raw) if isinstance(raw, Mapping) else {}
