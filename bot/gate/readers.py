"""The readers of an address and their clearance, asked of the channels at the moment it counts."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from bot.access import labelling, principals
from bot.core.errors import ElsewhereError, LockgateError
from bot.gate.judge import CurrentPolicy
from channels.messages import Address
from channels.port import Audience, ChannelError
from policy.request import Destination

_UNTOLD: Final = (LockgateError, ChannelError, OSError, KeyError)
"""The errors of a channel that cannot tell its readers."""

_NOBODY_KNOWN: Final = Audience(frozenset(), complete=False)

Audiences = Callable[[Address], Awaitable[Audience]]
"""Ask the channels for the present readers of an address.

Raises ElsewhereError: another process has that channel.
"""


class Readers:
    """Tells the readers of addresses, by the channels and the policy in force."""

    def __init__(self, policy: CurrentPolicy, audiences: Audiences) -> None:
        self._policy = policy
        self._audiences = audiences

    async def destination(self, address: Address) -> Destination:
        """Return an address with its effective clearance now; a channel that cannot tell makes it unknown."""
        return labelling.destination(self._policy.document, address, await self.audience(address))

    async def audience(self, address: Address) -> Audience:
        """Return the present readers of an address; a channel that cannot tell makes them unknown."""
        try:
            return await self._audience(address)
        except _UNTOLD:
            return _NOBODY_KNOWN

    async def prospect(self, address: Address) -> Destination:
        """Return an address for a text in the outbox, which the sending process decides on again.

        Where another process serves its channel, that process asks for the readers. Until then the address has its
        highest possible clearance, as a private chat of a known person or by its classification.
        """
        try:
            audience = await self._audience(address)
        except ElsewhereError:
            account = principals.reader(replace(address, recipient=address.chat))
            if self._policy.document.principal(account) is None:
                known = labelling.classification(self._policy.document, address)
                return Destination(str(address), address.channel, known, shared=True)
            audience = Audience.of(account)
        except _UNTOLD:
            audience = _NOBODY_KNOWN
        return labelling.destination(self._policy.document, address, audience)

    async def _audience(self, address: Address) -> Audience:
        """Ask for the readers of an address; a message for one account alone needs no question."""
        return Audience.of(principals.reader(address)) if address.recipient else await self._audiences(address)
