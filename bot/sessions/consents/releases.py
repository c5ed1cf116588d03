"""A release: a person's decision that exactly these bytes may leave below their label, as a value in the log.

Its record is an event of the session that the text is from. So it belongs to one generation, cannot be changed, and is
read again when the text is sent.
"""

import hashlib
from dataclasses import dataclass

from bot.sessions.deliveries import Delivery
from policy.labels import PUBLIC, Label
from policy.request import Destination


@dataclass(frozen=True, slots=True)
class Release:
    """A text that `/release` showed to a person and that waits for their confirmation.

    Args:
        code: The code that confirms it.
        principal: The person who saw it.
        home: The address where they saw it, as text.
        source: The place of the text's event in its generation.
        digest: The SHA-256 of the text in UTF-8, in hex.
        label: The label of the text.
        address: The destination, as text.
        clearance: The effective clearance of the destination when the text was shown.
        recipient: The name that was typed.
        meant: The meaning of that name then, as text that is only compared.
        expires_at: When the release expires, in milliseconds on the store's clock.
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
    """Return the SHA-256 of a text in UTF-8, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
