"""What was read and kept out of the context: stored with its label, referred to by an id, shown to nobody by itself."""

import hashlib
from dataclasses import dataclass

from policy.labels import Label


@dataclass(frozen=True, slots=True)
class Held:
    """A held item of one generation of one session.

    `label` is the true label of `text`. `floor` is what it was known to be at least before it was read, from
    configuration and the call alone; it is all that may be told of the item while its label is above the taint.
    """

    ref: str
    text: str
    label: Label
    floor: Label

    @property
    def digest(self) -> str:
        """The sha256 of the content, for bindings."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
