"""Web addresses: which ones may be asked for at all, and which network addresses may be connected to.

An address is taken apart by one strict rule and put together again from its parts, so that no later reader reads it
differently. An address that is not plainly public is not connected to.
"""

import ipaddress
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urljoin

LONGEST: Final = 2048
PORTS: Final = frozenset({80, 443, 8080, 8443})
"""Where web servers listen. Other ports belong to other protocols, which a request could be mistaken for."""

_DEFAULT: Final = MappingProxyType({"http": 80, "https": 443})
# Without `re.ASCII` a long s is equal to an s, and the name would be looked up as another one.
_PARTS: Final = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE | re.ASCII)
_AUTHORITY: Final = re.compile(r"([a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?", re.IGNORECASE | re.ASCII)
_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
# Left as they are when the rest of an address is percent-encoded.
_SAFE: Final = "%/:?@!$&'()*+,;=~-._[]"

# Networks that Python's tables lack in some versions.
_NEVER_V4: Final = (
    ipaddress.IPv4Network("168.63.129.16/32"),  # a cloud's own services, although the address is public
    ipaddress.IPv4Network("192.0.0.0/24"),  # protocol assignments, a cloud's metadata among them
    ipaddress.IPv4Network("192.88.99.0/24"),  # 6to4 relays
)
_V6: Final = ipaddress.IPv6Network("2000::/3")
_NEVER_V6: Final = (
    ipaddress.IPv6Network("2001::/23"),  # protocol assignments, Teredo among them
    ipaddress.IPv6Network("2002::/16"),  # 6to4
    ipaddress.IPv6Network("3fff::/20"),  # documentation
)
_ISATAP: Final = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")


class AddressError(Exception):
    """An address that is not asked for; its text is a constant."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An address in parts: `host` in lower case, an IPv6 one without brackets; `target` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port as the request names them; the port only if it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT[self.scheme] else f"{host}:{self.port}"

    @property
    def granted_as(self) -> str:
        """Host and port as the configuration of secrets names them: the port unless it is 443."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT["https"] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def at(self, address: str) -> str:
        """Return where to connect for it: the same with a network address instead of the name."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.target}"

    def same_origin(self, other: "WebAddress") -> bool:
        """Say whether two addresses belong to one server."""
        return (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)


def parsed(text: str) -> WebAddress:
    """Take an address apart.

    Raises AddressError: it is not asked for.
    """
    if len(text) > LONGEST or not text.isprintable() or " " in text or "\\" in text:
        raise AddressError(f"a web address has at most {LONGEST} printable characters, without blanks or backslashes")
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise AddressError("only addresses with http:// or https:// are fetched")
    scheme, authority, target = parts[1].lower(), parts[2], parts[3]
    if "@" in authority:
        raise AddressError("an address with a name or password in it is not fetched")
    named = _AUTHORITY.fullmatch(authority)
    if named is None:
        raise AddressError("the address has no valid host, write one with other letters in its xn-- form")
    host = named[1].lower().strip("[]").rstrip(".")
    if not host or (not is_ip(host) and (_NUMBER.fullmatch(host) or ":" in host)):
        raise AddressError("the address has no valid host")
    port = int(named[2] or _DEFAULT[scheme])
    return WebAddress(scheme, host, port, quote(target if target.startswith("/") else f"/{target}", safe=_SAFE))


def onward(place: WebAddress, location: str) -> WebAddress:
    """Return where a redirect leads.

    Raises AddressError: that is not asked for.
    """
    try:
        return parsed(urljoin(str(place), location.strip()))
    except ValueError:
        raise AddressError("the redirect leads to no valid address") from None


def is_ip(text: str) -> bool:
    """Say whether a host is a network address rather than a name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Say whether a network address is one of the public internet.

    Private, loopback, link-local, multicast, unspecified and reserved addresses are not. Nor are IPv6 addresses that
    only wrap an IPv4 one (mapped, compatible, NAT64, 6to4, Teredo, ISATAP), nor the service addresses of clouds.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if not ip.is_global or ip.is_multicast:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _NEVER_V4)
    return ip in _V6 and not any(ip in network for network in _NEVER_V6) and ip.packed[8:12] not in _ISATAP
