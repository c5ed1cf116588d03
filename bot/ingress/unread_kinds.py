"""Messages of kinds that no adapter reads, such as stickers, and edits: their sender is told so, in one line.

Nothing of their content comes here. A sender is told once a minute for each kind in each chat.
"""

from typing import Final

from bot.sessions.ports.accounts import CountStore
from channels.messages import EDIT, Inbound

UNREAD: Final = "I cannot read {kind}. Write a text instead."
EDITED: Final = "Your edit was not read. Send the whole message again."

_MINUTE_MS: Final = 60_000


class UnreadKinds:
    """Tells senders that a message was not read. `counts` notes who was told."""

    def __init__(self, counts: CountStore) -> None:
        self._counts = counts

    async def told(self, inbound: Inbound) -> str:
        """Return the line for a sender, an empty text for none. Raises StoreError."""
        name = f"unread/{inbound.account}@{inbound.address}/{inbound.unread}"
        if await self._counts.count(name, _MINUTE_MS) > 1:
            return ""
        return EDITED if inbound.unread == EDIT else UNREAD.format(kind=inbound.unread)
