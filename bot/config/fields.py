"""The common part of the blocks of config.yaml: their strictness, and fields that several have."""

import ipaddress
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from policy.errors import LabelTextError
from policy.labels import parse


class Block(BaseModel):
    """A block of fields: frozen, without unknown fields, and no value of one stands in an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


def only_here(host: str) -> bool:
    """Say whether an address of this machine is reached by this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _variable(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise ValueError("this is the name of an environment variable, the secret itself stands there")
    return name


def _private(entry: str) -> str:
    address, _, port = entry.rpartition(":")
    try:
        ipaddress.ip_address(address.strip("[]"))
        known = 0 < int(port) < 65536  # noqa: PLR2004 - the ports there are
    except ValueError:
        known = False
    if not known:
        raise ValueError(f"`{entry}` is not a network address with a port, write one as `10.1.2.3:80`")
    return entry


def _web_address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("a server's address begins with `https://` or `http://`")
    if "@" in url:
        raise ValueError("a password does not belong in the configuration, name the variable that holds it")
    return url


def _clearance(text: str) -> str:
    try:
        label = parse(text)
    except LabelTextError as error:
        raise ValueError(str(error)) from None
    if label.untrusted:
        raise ValueError("a clearance has no `~`, write it without")
    return text


Clearance = Annotated[str, AfterValidator(_clearance)]
"""The highest label that may be written somewhere, as text."""

Variable = Annotated[str, AfterValidator(_variable)]
"""The name of an environment variable that holds a secret."""

WebAddress = Annotated[str, AfterValidator(_web_address)]
"""Another server than the usual one."""

PrivateAddress = Annotated[str, AfterValidator(_private)]
"""A network address with its port that may be connected to although it is not public."""


def private_addresses(entries: Iterable[str]) -> frozenset[tuple[str, int]]:
    """Return such addresses, each with its port."""
    parts = (entry.rpartition(":") for entry in entries)
    return frozenset((str(ipaddress.ip_address(host.strip("[]"))), int(port)) for host, _, port in parts)
