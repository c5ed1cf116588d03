"""Direct answers: the replies of commands and refusals, to the sender alone and at once.

They are decided by their own label, not the session's. A message to the agent is answered by its turn instead.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from bot.access import principals
from bot.access.authorize import Caller
from bot.access.decision_context import DecisionContext
from bot.commands.command import Reply
from bot.core.clock import Clock
from bot.core.errors import StoreError
from bot.delivery.outbox import Outbox
from bot.gate.gate import Gate
from bot.ingress.new_chats import NewChats
from bot.ingress.spent_buttons import left
from bot.policy_state import PolicyReloader
from channels.messages import Address, Inbound
from channels.port import Answer


class DirectAnswers:
    """Sends direct answers, and tells admins of chats without a classification."""

    def __init__(
        self, gate: Gate, outbox: Outbox, reloader: PolicyReloader, *, new_chats: NewChats, clock: Clock
    ) -> None:
        self._gate = gate
        self._outbox = outbox
        self._reloader = reloader
        self._new_chats = new_chats
        self._clock = clock

    async def say(self, caller: Caller, inbound: Inbound, sid: str, reply: Reply) -> None:
        """Send an answer to the sender of an input. Raises StoreError."""
        there = answered_at(inbound)
        destination, now = await self._gate.readers.destination(there), self._clock.wall_ms()
        standing = DecisionContext.of_caller(caller, there, destination, now, sid=sid)
        await self._outbox.reply(standing, reply.text, reply.label, press=inbound.press, buttons=reply.buttons)
        if inbound.press and not reply.failed:
            # A set that stays leads to a refusal when it is pressed again, so nothing depends on this.
            await self._outbox.spend(inbound.address, inbound.press, partial(left, inbound.text))

    async def say_all(self, inbound: Inbound, say: Answer) -> None:
        """Send the remaining answer to an input, and tell admins of its chat if that has no classification.

        Raises StoreError: the answer was not sent.
        """
        await say()
        # The command may have classified the chat. The input is accepted, so a failure here must not cause a
        # redelivery.
        with suppress(StoreError):
            if await self._reloader.current():
                await self._new_chats.spoken_to(inbound.address, inbound.account)


def answered_at(inbound: Inbound) -> Address:
    """Return the address where a command is answered: for the account that gave it, alone."""
    if inbound.private:
        return inbound.address
    return replace(inbound.address, recipient=principals.recipient(inbound.account))
