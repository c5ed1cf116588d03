"""The key that signs an installation's exports, and the check of others' signatures.

It is derived from the audit key, so there is no other secret to keep. Only who can forge the audit of this installation
can pass a file for its export. Its public half is not secret. The library takes long to import, so that is done when
something is signed.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

_PURPOSE: Final = b"lockgate export 2 signature"


class ExportKey:
    """Signs the exports of an installation; `audit_key` is its audit key."""

    def __init__(self, audit_key: bytes) -> None:
        self._seed = hmac.digest(audit_key, _PURPOSE, hashlib.sha256)

    @property
    def public(self) -> str:
        """The public key: 43 letters, digits, `-` and `_`."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        raw = Ed25519PrivateKey.from_private_bytes(self._seed).public_key().public_bytes_raw()
        return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")

    def sign(self, signed: bytes) -> bytes:
        """Return a signature of 64 bytes."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self._seed).sign(signed)


def signed_by(public: str, signed: bytes, signature: bytes) -> bool:
    """Say whether a signature is that of a public key over some bytes; a text that is not a key signed nothing."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(f"{public}=")).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True
