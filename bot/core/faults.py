"""Faults: why a server did not answer over HTTP, and whether the operator has to mend that.

A status or a broken connection becomes a cause in our words. No sentence of the server or of a library is passed on: it
may hold a key, or data of the request.
"""

import re
import socket
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from bot.core.errors import causes

_BEHIND_HOSTS: Final = re.compile(r"[/?#]")


_WAITS: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a server did not answer. `cause` follows its name, as in *it does not accept the key*.

    `step` is how the operator mends it; it is empty where asking again may help.
    """

    cause: str
    step: str = ""


def refused(status: int, *, key: str, quota: bool = False) -> Fault:
    """Return the fault of a status. `key` names the place of the key; `quota` means that the quota is used up."""
    match status:
        case _ if quota or status == HTTPStatus.PAYMENT_REQUIRED:
            cause, step = "the quota of its account is used up", "add credit at the provider, or raise the limit there"
        case HTTPStatus.UNAUTHORIZED:
            cause, step = "it does not accept the key", f"put a valid key into {key}"
        case HTTPStatus.FORBIDDEN:
            cause, step = (
                "it does not let this key use the model",
                f"let the account use it, or put another key in {key}",
            )
        case HTTPStatus.NOT_FOUND:
            cause, step = "it does not know the model or the address", "mend the model's name or its `base_url`"
        case _ if status in _WAITS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            cause, step = "it is overloaded or broken", ""
        case _ if status < HTTPStatus.BAD_REQUEST:
            cause, step = "it redirects, which is not followed", "write the address it redirects to as `base_url`"
        case _:
            cause, step = "it does not take the request", "mend the model's name or its configuration"
    return Fault(f"{cause} (status {status})", step)


def unreached(error: BaseException) -> Fault:
    """Return why a connection could not be made, or broke."""
    for cause in causes(error, suppressed=True):
        match cause:
            case ssl.SSLCertVerificationError():
                step = "set SSL_CERT_FILE to the certificate that signed it, or mend the server's"
                return Fault("its certificate is not trusted", step)
            case ssl.SSLError():
                return Fault("no encrypted connection can be made", "see whether its address begins with `http://`")
            case socket.gaierror():
                return Fault("its name cannot be resolved", "mend its address, or the DNS of this machine")
            case ConnectionRefusedError():
                return Fault("nothing listens there", "start the server, or mend its address")
            case _:
                continue
    return Fault(f"the connection failed ({type(error).__name__})")


def place(url: str | None) -> str:
    """Return host and port of an address, or several of them, without the parts that may be a secret."""
    front, *_ = _BEHIND_HOSTS.split((url or "").partition("://")[2], maxsplit=1)
    return front.rpartition("@")[2]
