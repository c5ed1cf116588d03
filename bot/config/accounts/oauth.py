"""How a server that is reached by URL asks for an account, and where people who connect theirs come back to.

Every host that is asked for a token stands in the configuration: the server's own, its issuer's, and further `hosts`.
An address from a server's metadata that leads elsewhere is refused.
"""

import re
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from bot.config.fields import Block, Variable, only_here

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}\Z")
_CLIENT: Final = re.compile(r"[\x21-\x7e]{1,500}\Z")
_HOST: Final = re.compile(r"[a-z0-9.-]{1,253}(?::[0-9]{1,5})?\Z")


def netloc(url: str) -> str:
    """Return the host of an address in lower case, with its port unless that is the usual one; empty for none.

    An address with a user's name or with a malformed port has none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = (parts.hostname or "").lower()
    if not host or "@" in parts.netloc:
        return ""
    host = f"[{host}]" if ":" in host else host
    return host if port in {None, {"https": 443, "http": 80}.get(parts.scheme)} else f"{host}:{port}"


def is_sealed(url: str) -> bool:
    """Say whether only the host of an address reads a request there: it is encrypted, or stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and only_here(parts.hostname or ""))


def _sealed(url: str) -> str:
    if not netloc(url) or not is_sealed(url) or urlsplit(url).fragment:
        raise ValueError("write an address that begins with `https://`, `http://` is for this machine alone")
    return url


def _matched(pattern: re.Pattern[str], told: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.match(value):
            raise ValueError(told)
        return value

    return AfterValidator(check)


_Sealed = Annotated[str, AfterValidator(_sealed)]


class McpOAuthSettings(Block):
    """The accounts of a server: one for all (`shared`), or each person's own (`personal`).

    `client_secret` names the environment variable that holds the client's secret. Without a `client_id` Lockgate
    registers itself with the issuer. `hosts` may be asked beside those of the server and of its issuer.
    """

    accounts: Literal["shared", "personal"]
    client_id: Annotated[str, _matched(_CLIENT, "a client's id has no spaces and at most 500 characters")] | None = None
    client_secret: Variable | None = None
    scopes: list[Annotated[str, _matched(_SCOPE, "a scope is one word")]] = Field(
        default_factory=list[str], max_length=50
    )
    issuer: _Sealed | None = None
    hosts: list[
        Annotated[str, _matched(_HOST, "write a host in lower case, with its port if it has another than usual")]
    ] = Field(default_factory=list[str], max_length=20)

    @property
    def personal(self) -> bool:
        """Whether each person uses an account of their own."""
        return self.accounts == "personal"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.client_secret is not None and self.client_id is None:
            raise ValueError("`client_secret` belongs to a `client_id`")
        return self


class McpAccountsSettings(Block):
    """Where people come back to after they connected an account.

    `url` is that as it is on the internet, null for a browser on this machine. `host` and `port` are where to listen
    for them here; without a `url`, port 0 is any free one.
    """

    url: _Sealed | None = None
    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    port: int = Field(default=0, ge=0, le=65535)

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.url is not None and not self.port:
            raise ValueError("a `url` needs the `port` to listen at on this machine")
        if self.url is None and not only_here(self.host):
            raise ValueError("without a `url` people come back to this machine alone, leave `host` out")
        return self
