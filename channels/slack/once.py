"""What Slack tells more than once is taken in once.

A mention comes as a mention and as a message, and whatever was not acknowledged in time comes again, up to an hour
later and to any process. The application keeps a message once by its identity. What it does not keep but does, such as
a command, would be done again: so a command is claimed in the vault first, and whoever claimed it does it. A claim is
given back where it could not be done, so that it can be told again.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

from channels.base import Vault
from channels.message import Event, Inbound

_REMEMBERED: Final = 10_000
_LIFE: Final = 86_400.0
_CLAIM: Final = "slack/once/"


class Once:
    """Hands on what was not handed on before; what it did is remembered here, and of commands in the vault."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._known: dict[str, None] = {}

    async def hand(self, event: Event, receive: Callable[[Event], Awaitable[None]]) -> None:
        """Hand on an event, if it is the first time; what raises was not handed on.

        Raises VaultError: nobody can tell whether it was. Whatever `receive` raises.
        """
        if event.dedupe in self._known:
            return
        command = isinstance(event, Inbound) and event.addressed and event.text.startswith("/")
        name = _CLAIM + hashlib.sha256(event.dedupe.encode()).hexdigest()[:32]
        if command and not await self._vault.swap(name, None, b"1", _LIFE):
            return
        try:
            await receive(event)
        except BaseException:
            if command:
                await self._vault.delete(name)
            raise
        while len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[event.dedupe] = None
