"""The outbox: the only module that sends.

`deliver` says what a turn committed, durably; `preview` shows an answer while it is written, not durably; `reply`
answers a command at once; `signal` shows that something is going on, without free text. Whatever is said is
decided again here, against the readers at this moment (law `no_write_down`). What another session is to hear is
handed to its inbox. An entry whose sender vanished in mid-send is said again only where the adapter can mark it
as perhaps seen; elsewhere it is reported.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import anyio

from bot.clock import Clock
from bot.gate.decisions import MAY_GO_ON
from bot.gate.gate import Gate
from bot.post import TAKEN, Post
from bot.sessions import releases
from bot.sessions.deliveries import Delivery, DeliveryState
from bot.sessions.events import EventType
from bot.sessions.kin import SESSION
from bot.sessions.port import AuditStore, OutboxStore
from bot.sessions.records import AuditRow
from bot.sessions.releases import Release
from bot.standing import Standing
from channels.base import AmbiguousSendError, Channel, ChannelError
from channels.message import Address, Outbound, OutboundKind, Signal
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC, Label
from policy.request import Hook

WITHHELD_REPLY = "the answer may not be shown here"
"""What is said instead of a reply that may not be said, if at least this may."""

PACE_SECONDS: Final = 1.0
"""The least time between two edits of a preview."""


class Outbox:
    """Sends over the channels of this process. `sender` is this process's name in the store.

    `in_force` says whether this process decides by the policy in force. If not, it leaves what is to be said to others.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        store: OutboxStore,
        audit: AuditStore,
        channels: Mapping[str, Channel],
        gate: Gate,
        sender: str,
        post: Post,
        clock: Clock,
        in_force: Callable[[], Awaitable[bool]],
    ) -> None:
        self._store = store
        self._audit = audit
        self._channels = channels
        self._gate = gate
        self._post = post
        self._clock = clock
        self._in_force = in_force
        self.sender = sender

    def serves(self, address: str) -> bool:
        """Say whether an address belongs to a channel of this process; a session is served by every process."""
        channel = Address.parse(address).channel
        return channel == SESSION or channel in self._channels

    async def deliver(self, deliveries: tuple[Delivery, ...]) -> None:
        """Say what this process claimed, in order."""
        for delivery in deliveries:
            # A stop in mid-send would leave a text of which nobody knows whether it was said.
            with anyio.CancelScope(shield=True):
                await self._deliver(delivery)

    async def collect(self, sid: str) -> None:
        """Claim and say what waits in a session's outbox: after a crash, or committed by another process."""
        if await self._in_force():
            await self.deliver(await self._store.take(sid, self.sender, (*self._channels, SESSION)))

    async def reply(self, standing: Standing, text: str, label: Label) -> None:
        """Answer a command at its address, now or never: a command is asked again if its answer is lost.

        `label` is that of what the text tells. The decision is in the audit before anything is said.
        """
        destination = await self._gate.destination(standing.home)
        for said, about in ((text, label), (WITHHELD_REPLY, PUBLIC)):
            spoken = self._gate.reply(standing, destination, said, about)
            row = self._gate.row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(standing.home))
            await self._audit.append((row,))
            if spoken.decision.verdict in MAY_GO_ON:
                # What the command did is done: a platform that cannot be told of it must not deliver it again.
                with suppress(ChannelError):
                    await self._send(Outbound(standing.home, spoken.text, standing.turn, OutboundKind.NOTICE))
                return

    def preview(self, standing: Standing, key: str) -> "Preview":
        """Return what shows an answer at the session's home while it is written; `key` is the answer's."""
        return Preview(self._channels.get(standing.home.channel), self._gate, self._audit, standing, key)

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that something is going on, where there is a channel for it."""
        channel = self._channels.get(address.channel)
        if channel is not None:
            with suppress(ChannelError):
                await channel.signal(address, signal)

    async def _deliver(self, delivery: Delivery) -> None:
        address = Address.parse(delivery.address)
        repeated = delivery.state is DeliveryState.AMBIGUOUS
        if not await self._in_force():
            # Claimed before that was known. Whether one in doubt was said stays in doubt, and is reported.
            back = DeliveryState.AMBIGUOUS if repeated else DeliveryState.PENDING
            await self._store.settle(delivery, self.sender, back)
            return
        if repeated and address.channel != SESSION and not self._channels[address.channel].marks_repeats:
            await self._store.settle(delivery, self.sender, DeliveryState.AMBIGUOUS)
            return
        destination = await self._gate.destination(address)
        spoken = self._gate.recheck(delivery, destination, self._clock.wall_ms(), await self._release(delivery))
        if spoken.decision.verdict not in MAY_GO_ON:
            await self._store.settle(
                delivery, self.sender, DeliveryState.WITHHELD, audit=(self._row(delivery, spoken.decision),)
            )
            return
        if address.channel == SESSION:
            await self._hand_over(delivery, spoken.text)
            return
        try:
            await self._send(Outbound(address, spoken.text, delivery.key, OutboundKind(delivery.kind), repeated))
        except AmbiguousSendError:
            await self._store.settle(delivery, self.sender, DeliveryState.AMBIGUOUS)
        except ChannelError:
            await self._store.settle(delivery, self.sender, DeliveryState.FAILED)
        else:
            await self._store.settle(delivery, self.sender, DeliveryState.SENT)

    async def _hand_over(self, delivery: Delivery, text: str) -> None:
        """Hand a text to another session, and note what that did with it."""
        arrival = await self._post.hand_over(delivery, text)
        state = DeliveryState.SENT if arrival in TAKEN else DeliveryState.FAILED
        if arrival is None:
            state = DeliveryState.PENDING
        await self._store.settle(delivery, self.sender, state, arrival=arrival)

    async def _release(self, delivery: Delivery) -> Release | None:
        """Return the record that releases a delivery, read from the log it was written to."""
        if not delivery.release:
            return None
        for event in await self._store.events(delivery.sid, after=delivery.release - 1, limit=1):
            this = event.seq == delivery.release and event.generation == delivery.generation
            if this and event.type is EventType.RELEASE_CONFIRMED:
                return releases.read(event.body)
        return None

    async def _send(self, outbound: Outbound) -> None:
        await self._channels[outbound.address.channel].send(outbound)

    def _row(self, delivery: Delivery, decision: Decision) -> AuditRow:
        body = self._gate.facts(Hook.PRE_OUTPUT, decision, destination=delivery.address, key=delivery.key)
        return AuditRow("withheld", "outbox", body)


class Preview:
    """An answer that is still being written, shown as far as it goes.

    It is shown only where no rule would look at what is said, for such a rule could judge the whole otherwise, and
    only if it may be said as it is. The readers are asked for again at every edit. A response that turns out to call
    a tool is no answer, and is taken back.
    """

    def __init__(self, channel: Channel | None, gate: Gate, audit: AuditStore, standing: Standing, key: str) -> None:
        self._channel = channel if channel is not None and channel.previews else None
        self._gate = gate
        self._audit = audit
        self._standing = standing
        self._key = key
        self._shown = ""
        self._next = 0.0

    async def show(self, text: str) -> None:
        """Show a text, at most one a second; an empty one takes back what is shown."""
        now = anyio.current_time()
        if self._channel is None or text == self._shown or (text and now < self._next):
            return
        self._next = now + PACE_SECONDS
        if text and not await self._may_show(text):
            text = ""
        if text or self._shown:
            self._shown = text
            # What could not be shown is said in the end all the same.
            with suppress(ChannelError):
                await self._channel.preview(Outbound(self._standing.home, text, self._key))

    async def _may_show(self, text: str) -> bool:
        """Decide, against who reads there now (hook PRE_OUTPUT)."""
        destination = await self._gate.destination(self._standing.home)
        decision = self._gate.beginning(self._standing, destination, text)
        if decision is None or decision.verdict is not Verdict.ALLOW:
            return False
        home = str(self._standing.home)
        row = self._gate.row(self._standing, Hook.PRE_OUTPUT, decision, destination=home, preview=True)
        await self._audit.append((row,))
        return True
