"""A release: a person's decision that exactly these bytes may leave below their label, as a value in the log.

Its record is an event of the session the text is from: it belongs to one generation, cannot be changed, and is
read again when the text is sent. `digest` is the SHA-256 of the text in UTF-8, `clearance` the effective one of the
destination when it was shown, `recipient` the name that was typed and `meant` what it meant then. Both labels, and
that, are texts, compared and never read.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from bot.sessions.deliveries import Delivery
from bot.sessions.events import JsonObject
from policy.labels import PUBLIC
from policy.request import Destination

_WORDS: Final = ("code", "principal", "home", "digest", "label", "address", "clearance", "recipient", "meant")


@dataclass(frozen=True, slots=True)
class Release:
    """A text that `/release` showed to a person and that waits for their confirmation.

    `principal` saw it at `home`, and it is to go to `address`, whose readers have `clearance`; `expires_at` is in
    store ms.

    `source` is the place of the text's event in its generation.
    """

    code: str
    principal: str
    home: str
    source: int
    digest: str
    label: str
    address: str
    clearance: str
    recipient: str
    meant: str
    expires_at: int

    def body(self) -> dict[str, JsonValue]:
        """Return the body of the event that records it; it holds nothing of the text."""
        return {
            "code": self.code,
            "principal": self.principal,
            "home": self.home,
            "source": self.source,
            "digest": self.digest,
            "label": self.label,
            "address": self.address,
            "clearance": self.clearance,
            "recipient": self.recipient,
            "meant": self.meant,
            "expires_at": self.expires_at,
        }

    def covers(self, delivery: Delivery, destination: Destination) -> bool:
        """Say whether this is the release of exactly this text to this place, cleared as it was when shown."""
        return (
            self.digest == digest(delivery.text)
            and self.label == str(delivery.label)
            and self.address == delivery.address == destination.address
            and self.clearance == str(destination.clearance or PUBLIC)
        )


def read(body: JsonObject) -> Release | None:
    """Read a record, None if it is none."""
    words = {name: body.get(name) for name in _WORDS}
    source, expires_at = body.get("source"), body.get("expires_at")
    texts = {name: word for name, word in words.items() if isinstance(word, str)}
    if len(texts) < len(words) or not isinstance(source, int) or not isinstance(expires_at, int):
        return None
    return Release(source=source, expires_at=expires_at, **texts)


def digest(text: str) -> str:
    """Return the name of a text's bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
