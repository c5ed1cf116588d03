"""The stored values of accounts: a registration with an issuer, an account, a link, and an account to be confirmed.

They are frozen, and no token, code or verifier stands in their `repr`. As JSON they are put into the vault alone.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Final, TypeVar

from pydantic import TypeAdapter

SHARED: Final = ""
"""Stands for a principal where a server has one account for all."""


@dataclass(frozen=True, slots=True)
class AccountKey:
    """Names an account: its principal, or `SHARED`, and its id. Connections are kept apart by it."""

    principal: str
    id: str


@dataclass(frozen=True, slots=True)
class Registration:
    """A client of an issuer, and the issuer's addresses, all of them checked when it was made.

    Args:
        issuer: The issuer.
        authorization: Where people consent.
        token: Where codes and refresh tokens are exchanged.
        revocation: Where tokens are given back, empty for none.
        client_id: The client's id.
        method: How the client proves itself there.
        redirect: Where people come back to.
        names_issuer: Whether the issuer promised to name itself when people come back.
        secret: The client's secret, empty for none.
        ends: When the secret ends, in seconds since the epoch, 0 for never.
    """

    issuer: str
    authorization: str
    token: str
    revocation: str
    client_id: str
    method: str
    redirect: str
    names_issuer: bool = False
    secret: str = field(default="", repr=False)
    ends: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """An account at a server.

    Args:
        id: Names it among all that the same principal ever connected.
        server: The server's name.
        url: The server's address, when it was connected.
        principal: The person it belongs to, or `SHARED`.
        by: The platform's account in whose private chat it was connected, empty for a shared one.
        name: Its name, as the issuer told it; empty for none.
        since: When it was connected, in milliseconds since the epoch.
        registration: The client that its tokens were given to.
        resource: The resource that its tokens are for.
        scope: The scopes that were granted, as far as they were told.
        ends: When the access token ends, in milliseconds since the epoch, 0 for unknown.
        access: The access token.
        refresh: The refresh token, empty for none.
    """

    id: str
    server: str
    url: str
    principal: str
    by: str
    name: str
    since: int
    registration: Registration
    resource: str
    scope: str
    ends: int
    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)

    @property
    def key(self) -> AccountKey:
        """Its name among all accounts."""
        return AccountKey(self.principal, self.id)


@dataclass(frozen=True, slots=True)
class Link:
    """A link that counts once, with its person, and with the facts for the exchange when a person comes back by it."""

    server: str
    url: str
    principal: str
    by: str
    registration: Registration
    resource: str
    scope: str
    verifier: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An account that a person came back with. It counts once its principal types the code of the page.

    `digest` is the code's. `tries` is the number of codes that may still be tried. It counts until `ends`, in
    milliseconds since the epoch.
    """

    account: Account
    digest: str
    tries: int
    ends: int


Kept = TypeVar("Kept", Account, Link, Registration, Unconfirmed)
"""A kind of stored value."""


def written(value: Account | Link | Registration | Unconfirmed) -> bytes:
    """Return a value as it is stored."""
    return json.dumps(asdict(value)).encode()


def read(kind: type[Kept], raw: bytes) -> Kept | None:
    """Return a stored value; fields of a newer version are left out. None stands for one that cannot be read.

    The reason is not told: it would repeat a part of the value, and that holds tokens.
    """
    try:
        return TypeAdapter(kind).validate_json(raw)
    except ValueError:
        return None
