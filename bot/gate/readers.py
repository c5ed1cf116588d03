"""Who reads at an address, and what it is cleared for: asked of the channels at the moment it counts."""

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
"""What it may raise to ask who reads somewhere."""

_NOBODY_KNOWN: Final = Audience(frozenset(), complete=False)

Audiences = Callable[[Address], Awaitable[Audience]]
"""Ask the channels who reads at an address now.

Raises ElsewhereError: another process has that channel.
"""


class Readers:
    """Tells who reads where, by the channels and the policy in force."""

    def __init__(self, policy: CurrentPolicy, audiences: Audiences) -> None:
        self._policy = policy
        self._audiences = audiences

    async def destination(self, address: Address) -> Destination:
        """Return an address with its effective clearance now; a channel that cannot tell makes it unknown."""
        return labelling.destination(self._policy.document, address, await self.audience(address))

    async def audience(self, address: Address) -> Audience:
        """Return who reads at an address now; a channel that cannot tell makes it unknown."""
        try:
            return await self._audience(address)
        except _UNTOLD:
            return _NOBODY_KNOWN

    async def prospect(self, address: Address) -> Destination:
        """Return an address for what waits in the outbox, and is decided again by the process that says it.

        Where another process serves its channel, that one asks who reads there. Until then it is cleared for the most
        that may be said there, as a private chat of a known person or by its classification.
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
        """Ask who reads at an address; what one account alone gets to see needs no question."""
        return Audience.of(principals.reader(address)) if address.recipient else await self._audiences(address)
