"""A release: a person's decision that exactly these bytes may leave below their label, as a value in the log.

Its record is an event of the session the text is from: it belongs to one generation, cannot be changed, and is
read again when the text is sent. `digest` is the SHA-256 of the text in UTF-8, `clearance` the effective one of the
destination when it was shown, `recipient` the name that was typed and `meant` what it meant then. That is a text,
compared and never read.
"""

import hashlib
from dataclasses import dataclass

from bot.sessions.deliveries import Delivery
from policy.labels import PUBLIC, Label
from policy.request import Destination


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
    label: Label
    address: str
    clearance: Label
    recipient: str
    meant: str
    expires_at: int

    def covers(self, delivery: Delivery, destination: Destination) -> bool:
        """Say whether this is the release of exactly this text to this place, cleared as it was when shown."""
        return (
            self.digest == digest(delivery.text)
            and self.label == delivery.label
            and self.address == delivery.address == destination.address
            and self.clearance == (destination.clearance or PUBLIC)
        )


def digest(text: str) -> str:
    """Return the name of a text's bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
