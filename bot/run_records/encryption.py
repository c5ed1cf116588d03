"""Encryption of the words in a run's record, with a key that only the run's session holds.

The store keeps the key among the session's own, and deleting the session destroys it: then no copy of the repository
makes those words readable. The cipher is AES-SIV: the same text under the same name is written the same way. So an
unchanged record is the same file, and no counter has to be kept. It tells that two texts of one place are equal, and
how long they are, and nothing more.
"""

from base64 import b64decode, b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV


class RecordCipher:
    """Encrypts and decrypts the texts of one record; `key` has 64 bytes (`Ids.record_key`)."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESSIV(key)

    def sealed(self, text: str, place: str) -> str:
        """Return a text encrypted, in base64; it can be read only as the text at `place` in the record."""
        return b64encode(self._cipher.encrypt(text.encode("utf-8", "surrogatepass"), [place.encode()])).decode("ascii")

    def opened(self, sealed: str, place: str) -> str | None:
        """Return the decrypted text, None if another key or place encrypted it, or it was changed."""
        try:
            return self._cipher.decrypt(b64decode(sealed), [place.encode()]).decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):
            return None
