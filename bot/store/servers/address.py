"""The parsed address of a store: one server, Sentinels that know where it is, or a Cluster.

Nothing is connected here, and redis is not loaded. No error quotes the address: it may hold a password.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode

from bot.core.errors import StoreError

Endpoint: TypeAlias = tuple[str, int]
"""Host and port of a server."""


class Kind(StrEnum):
    """The kind of store that an address leads to, from its scheme after a `+`."""

    SERVER = ""
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_SCHEMES: Final = MappingProxyType(
    {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix"}
)
"""The library's name of each protocol."""


_PORTS: Final = MappingProxyType({Kind.SENTINEL: 26379, Kind.CLUSTER: 6379})


_WRITTEN: Final = MappingProxyType(
    {
        Kind.SERVER: "write it as `redis://host:6379/0`",
        Kind.SENTINEL: "write it as `redis+sentinel://host:26379,host:26379/service`",
        Kind.CLUSTER: "write it as `redis+cluster://host:6379,host:6379`",
    }
)


_OF_SENTINELS: Final = MappingProxyType({"sentinel_username": "username", "sentinel_password": "password"})
"""Options that are for the Sentinels and not for the servers."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """An address.

    Args:
        kind: The kind of store.
        server: The address of one server as the library takes it. With Sentinels and a Cluster it has the common
            options of all servers, and its host is a placeholder.
        hosts: The Sentinels, or nodes of the Cluster.
        service: The server's name at the Sentinels.
        sentinel: The user and password at the Sentinels.
    """

    kind: Kind
    server: str = field(repr=False)
    hosts: tuple[Endpoint, ...] = ()
    service: str = ""
    sentinel: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def encrypted(self) -> bool:
        """Whether connections are encrypted."""
        return self.server.startswith("rediss:")


def read_address(url: str) -> StoreAddress:
    """Read the address of a store. Raises StoreError: it is not an address."""
    scheme, there, rest = url.partition("://")
    protocol, plus, word = scheme.partition("+")
    if not there or protocol not in _SCHEMES or (plus and word not in {Kind.SENTINEL, Kind.CLUSTER}):
        raise _unreadable(Kind.SERVER)
    kind = Kind(word)
    if kind is Kind.SERVER:
        return StoreAddress(kind, f"{_SCHEMES[protocol]}://{rest}")
    if protocol == "unix":
        raise _unreadable(kind)
    rest, _, query = rest.partition("?")
    front, _, path = rest.partition("/")
    who, _, hosts = front.rpartition("@")
    service, _, database = path.strip("/").partition("/") if kind is Kind.SENTINEL else ("", "", path.strip("/"))
    _check(kind, service, database)
    options = parse_qsl(query, keep_blank_values=True)
    common = [(name, value) for name, value in options if name not in _OF_SENTINELS]
    # The library reads the rest of it, and needs a host there meanwhile.
    server = f"{_SCHEMES[protocol]}://{f'{who}@' if who else ''}host/{database}?{urlencode(common)}"
    return StoreAddress(
        kind,
        server,
        tuple(_endpoint(host, kind) for host in hosts.split(",")),
        unquote(service),
        tuple((_OF_SENTINELS[name], value) for name, value in options if name in _OF_SENTINELS),
    )


def _check(kind: Kind, service: str, database: str) -> None:
    if kind is Kind.SENTINEL and not service:
        raise StoreError("`store.url` does not name the service of the Sentinels", next_step=_WRITTEN[kind])
    if kind is Kind.CLUSTER and database not in {"", "0"}:
        raise StoreError("a Cluster has one database only", next_step="leave its number out of `store.url`")
    if database and not database.isdecimal():
        raise _unreadable(kind)


def _endpoint(text: str, kind: Kind) -> Endpoint:
    """Read `host:port`, `host` or `[address]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(_PORTS[kind])
    host = unquote(host).removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise _unreadable(kind)
    return host, int(port)


def _unreadable(kind: Kind) -> StoreError:
    return StoreError("`store.url` is not an address of a store", next_step=_WRITTEN[kind])
