"""Texts in several messages that a platform stopped in the middle with a wait: the messages that were shown are kept.

The text goes back to the application, and any process may send the rest of it. A text in one message asks for nothing:
it is shown as a whole or not at all.
"""

import hashlib
import json
from typing import Final

from channels.messages import Outbound
from channels.port import AmbiguousSendError, ChannelError, ChannelVault, VaultError

_LIFE: Final = 7 * 24 * 60 * 60.0
"""Seconds for which they are kept, longer than a text may wait."""


class BegunSends:
    """Keeps them in the vault, under names that begin with `prefix`."""

    def __init__(self, vault: ChannelVault, prefix: str) -> None:
        self._vault, self._prefix = vault, f"{prefix}/begun/"

    async def shown(self, outbound: Outbound, messages: int) -> tuple[int, str]:
        """Return how many of the messages of a text were shown before, and the receipt of the last of these.

        Raises ChannelError: it cannot be known now, and nothing of it may be shown.
        """
        if messages < 2:  # noqa: PLR2004 - a text that cannot be stopped in the middle
            return 0, ""
        try:
            kept = await self._vault.get(self._name(outbound))
        except VaultError:
            raise ChannelError("it is not known how much of it was shown before") from None
        if kept is None:
            return 0, ""
        number, receipt = json.loads(kept)
        return int(number), str(receipt)

    async def stopped(self, outbound: Outbound, shown: int, receipt: str = "") -> None:
        """Keep how many messages of a text were shown when the platform asked to wait.

        Raises AmbiguousSendError: it cannot be kept, so the rest must not be sent.
        """
        if not shown:
            return
        try:
            await self._vault.put(self._name(outbound), json.dumps([shown, receipt]).encode(), _LIFE)
        except VaultError:
            raise AmbiguousSendError("only a part of it was shown") from None

    def _name(self, outbound: Outbound) -> str:
        named = json.dumps([str(outbound.address), outbound.key, outbound.repeated])
        return self._prefix + hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
