"""The outbox: the only module that sends.

`deliver` says what a turn committed, durably; `reply` answers a command at once; `signal` shows that
something is going on, without free text. Whatever is said is decided again here, against the readers
at this moment (law `no_write_down`). An entry whose sender vanished in mid-send is said again only where
the adapter can mark it as perhaps seen; elsewhere it is reported.
"""

from collections.abc import Mapping
from contextlib import suppress

import anyio

from bot.gate import Gate
from bot.sessions.port import AuditStore, OutboxStore
from bot.sessions.values import AuditRow, Delivery, DeliveryState
from bot.standing import Standing
from channels.base import AmbiguousSendError, Channel, ChannelError
from channels.message import Address, Outbound, OutboundKind, Signal
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC, Label
from policy.request import Hook

WITHHELD_REPLY = "the answer may not be shown here"
"""What is said instead of a reply that may not be said, if at least this may."""


class Outbox:
    """Sends over the channels of this process. `sender` is this process's name in the store."""

    def __init__(
        self, store: OutboxStore, audit: AuditStore, channels: Mapping[str, Channel], gate: Gate, sender: str
    ) -> None:
        self._store = store
        self._audit = audit
        self._channels = channels
        self._gate = gate
        self.sender = sender

    def serves(self, address: str) -> bool:
        """Say whether an address belongs to a channel of this process."""
        return Address.parse(address).channel in self._channels

    async def deliver(self, deliveries: tuple[Delivery, ...]) -> None:
        """Say what this process claimed, in order."""
        for delivery in deliveries:
            # A stop in mid-send would leave a text of which nobody knows whether it was said.
            with anyio.CancelScope(shield=True):
                await self._deliver(delivery)

    async def collect(self, sid: str) -> None:
        """Claim and say what waits in a session's outbox: after a crash, or committed by another process."""
        await self.deliver(await self._store.take(sid, self.sender, tuple(self._channels)))

    async def reply(self, standing: Standing, text: str, label: Label) -> None:
        """Answer a command at its address, now or never: a command is asked again if its answer is lost.

        `label` is that of what the text tells. The decision is in the audit before anything is said.
        """
        destination = await self._gate.destination(standing.home)
        for said, about in ((text, label), (WITHHELD_REPLY, PUBLIC)):
            spoken = self._gate.reply(standing, destination, said, about)
            row = self._gate.row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(standing.home))
            await self._audit.append((row,))
            if spoken.decision.verdict in {Verdict.ALLOW, Verdict.REDACT}:
                # What the command did is done: a platform that cannot be told of it must not deliver it again.
                with suppress(ChannelError):
                    await self._send(Outbound(standing.home, spoken.text, standing.turn, OutboundKind.NOTICE))
                return

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that something is going on, where there is a channel for it."""
        channel = self._channels.get(address.channel)
        if channel is not None:
            with suppress(ChannelError):
                await channel.signal(address, signal)

    async def _deliver(self, delivery: Delivery) -> None:
        address = Address.parse(delivery.address)
        repeated = delivery.state is DeliveryState.AMBIGUOUS
        if repeated and not self._channels[address.channel].marks_repeats:
            await self._store.settle(delivery, self.sender, DeliveryState.AMBIGUOUS)
            return
        destination = await self._gate.destination(address)
        spoken = self._gate.recheck(delivery, destination)
        if spoken.decision.verdict not in {Verdict.ALLOW, Verdict.REDACT}:
            await self._store.settle(
                delivery, self.sender, DeliveryState.WITHHELD, audit=(self._row(delivery, spoken.decision),)
            )
            return
        try:
            await self._send(Outbound(address, spoken.text, delivery.key, OutboundKind(delivery.kind), repeated))
        except AmbiguousSendError:
            await self._store.settle(delivery, self.sender, DeliveryState.AMBIGUOUS)
        except ChannelError:
            await self._store.settle(delivery, self.sender, DeliveryState.FAILED)
        else:
            await self._store.settle(delivery, self.sender, DeliveryState.SENT)

    async def _send(self, outbound: Outbound) -> None:
        await self._channels[outbound.address.channel].send(outbound)

    def _row(self, delivery: Delivery, decision: Decision) -> AuditRow:
        body = self._gate.facts(Hook.PRE_OUTPUT, decision, destination=delivery.address, key=delivery.key)
        return AuditRow("withheld", "outbox", body)
