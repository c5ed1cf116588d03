"""Ids and randomness, made here alone so that a test can determine them.

Random ids name things that must not collide or be guessed. A session's id is not random: it is a keyed hash of its
address, so that accepting a message needs no look-up, and nobody without the key can compute it.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

KEY_BYTES: Final = 32
"""The length of an installation's secret keys, in bytes."""

_APPROVAL_ALPHABET: Final = "23456789abcdefghjkmnpqrstuvwxyz"
_APPROVAL_LENGTH: Final = 8
_SESSION_BYTES: Final = 20


class Ids:
    """Makes ids from a source of random bytes, which is the system's unless another is given."""

    def __init__(self, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._random_bytes = random_bytes

    def op(self) -> str:
        """Return an id for one operation on the store: 16 letters and digits, 80 random bits."""
        return _base32(self._random_bytes(10))

    def owner(self) -> str:
        """Return a nonce that names the holder of a lease: 16 letters and digits, 80 random bits."""
        return _base32(self._random_bytes(10))

    def turn(self) -> str:
        """Return a turn's id: 16 letters and digits, 80 random bits."""
        return _base32(self._random_bytes(10))

    def webhook(self) -> str:
        """Return a webhook's id: 16 letters and digits, 80 random bits."""
        return _base32(self._random_bytes(10))

    def webhook_secret(self) -> str:
        """Return the signing secret of a webhook, as Standard Webhooks writes it: 256 random bits."""
        return f"whsec_{base64.b64encode(self._random_bytes(KEY_BYTES)).decode('ascii')}"

    def reference(self) -> str:
        """Return the reference of an error, which people give to the operator: 8 letters and digits, 40 random bits."""
        return _base32(self._random_bytes(5))

    def token(self) -> str:
        """Return the name of a token's secret: 16 letters and digits, 80 random bits."""
        return _base32(self._random_bytes(10))

    def secret(self) -> str:
        """Return the secret of a token: 52 letters and digits, 256 random bits."""
        return _base32(self._random_bytes(32))

    def record_key(self) -> bytes:
        """Return the encryption key of a run's record: two keys of 256 random bits."""
        return self._random_bytes(2 * KEY_BYTES)

    def chance(self) -> float:
        """Return a number from 0 up to 1, which spreads the retries of those that wait."""
        return int.from_bytes(self._random_bytes(4)) / 2**32

    def approval(self) -> str:
        """Return an id a person can type: 8 of 31 letters and digits, no two of which look alike."""
        return _typed(self._random_bytes(8))


def new_key() -> bytes:
    """Return a new secret key."""
    return secrets.token_bytes(KEY_BYTES)


def session_id(key: bytes, address: str, principal: str = "", root: int = 0) -> str:
    """Return the id of the session of a principal at an address, under a generation root: 32 letters and digits.

    Different arguments give different ids: the address' length is hashed before it, and the root has a fixed length. So
    no part of one argument can count as a part of another.

    Args:
        key: The installation's secret.
        address: The address, as text.
        principal: The principal, empty for the first session of an address.
        root: How many sessions there ended before, archived or deleted.
    """
    said = address.encode("utf-8", "surrogatepass")
    material = len(said).to_bytes(8) + said + root.to_bytes(8) + principal.encode("utf-8", "surrogatepass")
    return _base32(hmac.digest(key, material, hashlib.sha256)[:_SESSION_BYTES])


def key_name(key: bytes) -> str:
    """Return the name of a secret key: 8 letters and digits, which tell nothing of it."""
    return _base32(hmac.digest(key, b"lockgate key name", hashlib.sha256)[:5])


def code_digest(key: bytes, code: str) -> str:
    """Return the stored digest of a pairing code; nobody without the key can try codes against it."""
    return _base32(hmac.digest(key, b"pairing\0" + code.encode("utf-8", "surrogatepass"), hashlib.sha256))


def token_digest(key: bytes, token: str) -> str:
    """Return the stored digest of a program's token; without the key it cannot be compared with a guess."""
    return _base32(hmac.digest(key, b"token\0" + token.encode("utf-8", "surrogatepass"), hashlib.sha256))


def held_id(key: str) -> str:
    """Return the id of a call's held result: the same whenever that call is repeated.

    `key` is the call's idempotency key. It begins with the session's id, which only this installation can compute, so a
    text from outside cannot name a future item.
    """
    return _hashed("held", key)


def receipt_id(key: str) -> str:
    """Return the id of the receipt for a message of a session: it reveals neither the message nor its target.

    `key` is the idempotency key of the delivery. Only the sending session finds it among its own deliveries.
    """
    return _hashed("receipt", key)


def letter_id(sid: str, key: str) -> str:
    """Return the id of a dead letter, the delivery `key` of a session: it reveals neither its text nor its address."""
    return _hashed("letter", f"{sid}/{key}")


def webhook_event_id(webhook: str, sid: str, seq: int) -> str:
    """Return the id under which an event of a session is sent to a webhook: the same for every try."""
    return _hashed("msg", f"{webhook}/{seq}/{sid}")


def waiting_id(dedupe: str) -> str:
    """Return the id, one that a person can type, of a held message of another session: by its dedupe key."""
    return _typed(hashlib.sha256(dedupe.encode("utf-8", "surrogatepass")).digest()[:8])


def _typed(raw: bytes) -> str:
    number, letters = int.from_bytes(raw), list[str]()
    for _ in range(_APPROVAL_LENGTH):
        number, rest = divmod(number, len(_APPROVAL_ALPHABET))
        letters.append(_APPROVAL_ALPHABET[rest])
    return "".join(letters)


def _hashed(kind: str, key: str) -> str:
    # The kind goes in, so that of two ids of one key neither tells the other.
    material = f"{kind}\0{key}".encode("utf-8", "surrogatepass")
    return f"{kind}-{_base32(hashlib.sha256(material).digest()[:10])}"


def _base32(raw: bytes) -> str:
    return base64.b32encode(raw).decode("ascii").rstrip("=").lower()
