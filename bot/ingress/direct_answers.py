"""Direct answers: what a command or a refusal says, to the sender alone and at once.

They are decided from their own label, not the session's. What is said to the agent is answered by its turn instead.
"""

from contextlib import suppress
from dataclasses import replace

from bot.access import principals
from bot.access.authorize import Caller
from bot.access.decision_context import DecisionContext
from bot.commands.command import Reply
from bot.core.clock import Clock
from bot.core.errors import StoreError
from bot.delivery.outbox import Outbox
from bot.gate.gate import Gate
from bot.ingress.new_chats import NewChats
from bot.policy_state import PolicyReloader
from channels.messages import Address, Inbound
from channels.port import Answer


class DirectAnswers:
    """Says direct answers, and tells admins of chats that nobody classified."""

    def __init__(
        self, gate: Gate, outbox: Outbox, reloader: PolicyReloader, *, new_chats: NewChats, clock: Clock
    ) -> None:
        self._gate = gate
        self._outbox = outbox
        self._reloader = reloader
        self._new_chats = new_chats
        self._clock = clock

    async def say(self, caller: Caller, inbound: Inbound, sid: str, reply: Reply) -> None:
        """Say an answer to the sender of something that came in. Raises StoreError."""
        there = answered_at(inbound)
        destination, now = await self._gate.readers.destination(there), self._clock.wall_ms()
        standing = DecisionContext.of_caller(caller, there, destination, now, sid=sid)
        await self._outbox.reply(standing, reply.text, reply.label, press=inbound.press, buttons=reply.buttons)

    async def say_all(self, inbound: Inbound, say: Answer) -> None:
        """Say what is left to say of something, and tell admins of its chat if nobody classified that.

        Raises StoreError: it was not said.
        """
        await say()
        # What was said may have classified the chat. It is taken in, so it must not be told again for this.
        with suppress(StoreError):
            if await self._reloader.current():
                await self._new_chats.spoken_to(inbound.address, inbound.account)


def answered_at(inbound: Inbound) -> Address:
    """Return where a command is answered: alone to the account that gave it."""
    if inbound.private:
        return inbound.address
    return replace(inbound.address, recipient=principals.recipient(inbound.account))
