"""The outbox: the only module that sends.

`deliver` says what a turn committed, durably; `preview` makes what shows an answer while it is written; `reply`
answers a command at once; `signal` shows that something is going on, without free text. Whatever is said is
decided again here, against the readers at this moment (law `no_write_down`). What another session is to hear is
handed to its inbox. An entry whose sender vanished in mid-send is said again only where the adapter can mark it
as perhaps seen; elsewhere it is reported. What cannot be said yet goes back to the store with the time of its next
try, and whatever stands behind it for the same address with it; what will not be said is a dead letter. An edit may be
made twice, and one that cannot be made is let go.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from bot.access import principals
from bot.access.decision_context import DecisionContext
from bot.core.clock import Clock
from bot.core.errors import NotFoundError, StoreError, StoreGoneError, StoreRefusedError
from bot.core.ids import Ids
from bot.core.logs import bound
from bot.delegation.handoff import TAKEN, Handoff
from bot.delivery import approval_prompts, interrupted_workflows, question_prompts
from bot.delivery.alternatives import Alternatives
from bot.delivery.holding import Holding, told_of
from bot.delivery.previews import Preview
from bot.delivery.rate_limits import Patience, RateLimits
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_facts, decision_row
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import SESSION, Arrival
from bot.sessions.background.runs import RUN
from bot.sessions.deliveries import OURS, Delivery, DeliveryState, NewDelivery, SendSlot
from bot.sessions.log.event_types import ReleaseConfirmed
from bot.sessions.ports.store import Store
from bot.sessions.releases import Release
from bot.telemetry.telemetry import Telemetry
from channels.messages import Address, Button, Outbound, OutboundKind, Signal
from channels.port import AmbiguousSendError, BusyChannelError, Channel, ChannelError, GoneError
from policy.decision import Decision
from policy.labels import PUBLIC, Label, Level
from policy.request import Destination, Hook

if TYPE_CHECKING:
    from pydantic import JsonValue

WITHHELD_REPLY: Final = "the answer may not be shown here, ask for it where more may be told"
"""What is said instead of a reply that may not be said, if at least this may."""

GONE: Final = "nobody is there any more"
TOO_OLD: Final = "it waited for too long"
FAILED: Final = "it failed every time"
NOT_THEIRS: Final = "whom it was for is not who reads there now"
"""Why something was not said, in the audit."""

_SAID: Final = frozenset({DeliveryState.SENT, DeliveryState.AMBIGUOUS})

_LOGGER: Final = logging.getLogger(__name__)

_MOMENT: Final = 0.01
"""Seconds after which readers are asked for again."""


class Outbox:
    """Sends over the channels of this process. `sender` is this process's name in the store.

    `in_force` says whether this process decides by the policy in force. If not, it leaves what is to be said to others.
    What waited for longer than `hours` is not said any more.
    """

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        store: Store,
        channels: Mapping[str, Channel],
        gate: Gate,
        sender: str,
        handoff: Handoff,
        holding: Holding,
        alternatives: Alternatives,
        clock: Clock,
        ids: Ids,
        in_force: Callable[[], Awaitable[bool]],
        rate_limits: RateLimits,
        hours: float,
        telemetry: Telemetry,
    ) -> None:
        self._store = store
        self._channels = channels
        self._gate = gate
        self._handoff = handoff
        self._holding = holding
        self._alternatives = alternatives
        self._clock = clock
        self._ids = ids
        self._in_force = in_force
        self._rate_limits = rate_limits
        self._telemetry = telemetry
        self._oldest_ms = hours * 3_600_000
        self._owed = dict[tuple[str, str], tuple[Delivery, _Fate]]()
        self._lost = dict[str, str]()
        self.sender = sender

    def serves(self, address: str) -> bool:
        """Say whether an address belongs to a channel of this process; every process serves sessions and runs."""
        return Address.parse(address).channel in self.channels

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of this process; sessions and runs are served by every process."""
        return (*self._channels, SESSION, RUN)

    async def deliver(self, deliveries: tuple[Delivery, ...]) -> None:
        """Say what this process claimed, in order; behind what goes back to the store, the rest of its address does.

        Raises StoreError: the store failed. What was surely not said goes back and is said later, and what became of
        the rest is written down, once the store takes writes again.
        """
        patience, waiting, failed = Patience(), set[str](), list[Exception]()
        for delivery in deliveries:
            # A stop in mid-send would leave a text of which nobody knows whether it was said.
            with anyio.CancelScope(shield=True), bound(session=delivery.sid, turn=delivery.turn):
                behind = delivery.address in waiting
                fate = self._unasked(delivery) if behind else await self._tried(delivery, patience, failed)
                if fate.state is DeliveryState.PENDING:
                    waiting.add(delivery.address)
                self._owed[delivery.sid, delivery.key] = (delivery, fate)
                try:
                    await self.settle_owed(delivery.sid)
                except StoreError as error:
                    failed.append(error)
        if failed:
            raise failed[0]

    async def collect(self, sid: str) -> None:
        """Claim and say what waits in a session's outbox: after a crash, or committed by another process.

        Raises StoreError: as `deliver`.
        """
        if not await self._in_force():
            return
        await self.settle_owed(sid)
        op = self._lost.pop(sid, "") or self._ids.op()
        try:
            taken = await self._store.outbox.take(sid, self.sender, self.channels, op=op)
        except (StoreError, anyio.get_cancelled_exc_class()):
            # It may have been done, and only the answer was lost: asked again, it gives the same.
            self._lost[sid] = op
            raise
        await self.deliver(taken)

    def unsaid(self, deliveries: tuple[Delivery, ...]) -> None:
        """Note that deliveries, if the store gave them to this process, are surely not said: it was not told so."""
        for delivery in deliveries:
            self._owed[delivery.sid, delivery.key] = (delivery, _Fate(DeliveryState.PENDING))

    async def settle_owed(self, sid: str = "") -> None:
        """Write down what became of texts, of one session or of all, which the store did not take before.

        Raises StoreError: it does not yet.
        """
        for name, owed in tuple(self._owed.items()):
            if sid and sid != name[0]:
                continue
            try:
                await self._settle(*owed)
            except (StoreGoneError, StoreRefusedError):
                raise
            except StoreError:
                # Its record cannot be read, and that does not pass.
                self._pay(name, owed)
                raise
            self._pay(name, owed)

    def _pay(self, name: tuple[str, str], owed: "tuple[Delivery, _Fate]") -> None:
        """Forget what was owed, unless another try of that text owes something else by now."""
        if self._owed.get(name) is owed:
            del self._owed[name]

    async def catch_up(self) -> tuple[str, ...]:
        """Write down what the store did not take before; return the sessions with something this process may hold.

        Raises StoreError: it does not yet.
        """
        await self.settle_owed()
        return tuple(self._lost)

    async def reply(
        self, standing: DecisionContext, text: str, label: Label, *, press: str = "", buttons: tuple[Button, ...] = ()
    ) -> None:
        """Answer a command at its address, now or never: a command is asked again if its answer is lost.

        `label` is that of what the text tells, `press` the press on a button that it answers. The decision is in the
        audit before anything is said.
        """
        destination = await self._gate.readers.destination(standing.home)
        for said, about, offered in ((text, label, buttons), (WITHHELD_REPLY, PUBLIC, ())):
            decided = await self._decided(standing, destination, text=said, label=about, buttons=offered)
            if decided is not None:
                # Somebody is there who asked.
                await self._rate_limits.heard(standing.home)
                outbound = Outbound(
                    address=standing.home,
                    text=decided,
                    key=standing.turn or self._ids.op(),
                    kind=OutboundKind.NOTICE,
                    links=_open(about),
                    press=press,
                    buttons=offered,
                )
                await self._answer(standing, destination, outbound, about)
                return

    async def tell(
        self, standing: DecisionContext, text: str, buttons: tuple[Button, ...], label: Label = PUBLIC
    ) -> bool:
        """Tell somebody something, without being asked, now or never; return whether it was said.

        `label` is that of what it tells.
        """
        destination = await self._gate.readers.destination(standing.home)
        decided = await self._decided(standing, destination, text=text, label=label, buttons=buttons)
        if decided is None:
            return False
        turn = SendSlot(str(standing.home))
        if await self._rate_limits.wait(turn, shared=destination.shared, patience=Patience()) != 0:
            return False
        try:
            await self._send(Outbound(standing.home, decided, self._ids.op(), OutboundKind.NOTICE, buttons=buttons))
        except BusyChannelError as error:
            await self._rate_limits.busy(turn, error)
            return False
        except ChannelError as error:
            _log_unsent(standing.home, error, label)
            if isinstance(error, GoneError):
                await self._rate_limits.gone(turn)
            return isinstance(error, AmbiguousSendError)
        return True

    async def _decided(
        self,
        standing: DecisionContext,
        destination: Destination,
        *,
        text: str,
        label: Label,
        buttons: tuple[Button, ...],
    ) -> str | None:
        """Return what may be said of a text of the program's own, None for nothing; that is in the audit by then."""
        await self._gate.output.read_ahead((text,))
        spoken = self._gate.output.reply(standing, destination, text, label, buttons=buttons)
        row = decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(standing.home))
        await self._store.audit.append((row,))
        return spoken.text if spoken.decision.verdict in MAY_GO_ON else None

    async def _answer(
        self, standing: DecisionContext, destination: Destination, outbound: Outbound, label: Label
    ) -> None:
        """Say what may be said; where that takes long, leave it in the outbox of the session, if that has begun."""
        turn = SendSlot(str(standing.home))
        wait = await self._rate_limits.wait(turn, shared=destination.shared, patience=Patience())
        if not wait:
            try:
                await self._send(outbound)
            except BusyChannelError as error:
                wait = await self._rate_limits.busy(turn, error)
            except ChannelError as error:
                # What the command did is done: a platform that cannot be told of it must not deliver it again.
                _log_unsent(standing.home, error, label)
                return
        if wait:
            meant = principals.meant_for(standing.principal, standing.asker, standing.home, standing.home)
            notice = NewDelivery(
                outbound.key,
                turn.address,
                outbound.text,
                label,
                outbound.kind,
                standing.turn,
                approved=OURS,
                meant_for=meant,
            )
            with suppress(NotFoundError):
                await self._store.outbox.put(standing.sid, notice)

    def preview(self, standing: DecisionContext, key: str) -> "Preview":
        """Return what shows an answer at the session's home while it is written; `key` is the answer's."""
        return Preview(
            self._channels.get(standing.home.channel),
            self._gate,
            audit=self._store.audit,
            rate_limits=self._rate_limits,
            standing=standing,
            key=key,
        )

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that something is going on, where there is a channel for it."""
        channel = self._channels.get(address.channel)
        if channel is not None:
            with suppress(ChannelError):
                await channel.signal(address, signal)

    async def _tried(self, delivery: Delivery, patience: Patience, failed: list[Exception]) -> "_Fate":
        """Say something, and return what became of it; what went wrong joins `failed`."""
        watch = self._telemetry.stopwatch()
        if watch is None:
            return await self._fate(delivery, patience, failed)
        start = watch.now()
        fate = await self._fate(delivery, patience, failed)
        self._telemetry.delivered(delivery, fate.state, start, watch.now())
        return fate

    async def _fate(self, delivery: Delivery, patience: Patience, failed: list[Exception]) -> "_Fate":
        try:
            return await self._deliver(delivery, patience)
        except StoreError as error:
            # Between a text's leaving and its fate the store is asked for nothing.
            failed.append(error)
            return self._unasked(delivery)
        except _BrokenSendError as error:
            failed.append(error.why)
            return _Fate(DeliveryState.AMBIGUOUS)
        except Exception as error:  # noqa: BLE001 - a bug in one text must not leave the others claimed and unsaid
            failed.append(error)
            return self._unasked(delivery)

    def _unasked(self, delivery: Delivery) -> "_Fate":
        """Give back what was surely not said now; whether one in doubt was said before stays in doubt."""
        channel = Address.parse(delivery.address).channel
        marks = channel == SESSION or self._channels[channel].marks_repeats
        return _Fate(DeliveryState.PENDING) if marks else _back(delivery)

    async def _deliver(self, delivery: Delivery, patience: Patience) -> "_Fate":
        """Say something, and return what became of it."""
        if not await self._in_force():
            # Claimed before that was known.
            return _back(delivery)
        address, turn = Address.parse(delivery.address), SendSlot(delivery.address, delivery.sid, delivery.key)
        obstacle = self._obstacle(delivery, address)
        if obstacle is not None:
            return obstacle
        destination, before = await self._gate.readers.destination(address), anyio.current_time()
        wait = await self._rate_limits.wait(turn, shared=destination.shared, patience=patience)
        if wait != 0:
            return _back(delivery, wait) if wait else self._unsaid(delivery, DeliveryState.FAILED, GONE)
        said, buttons = await self._said_before(delivery), await self._buttons(delivery, address)
        release = await self._release(delivery)
        await self._gate.output.read_ahead((delivery.text,))
        if anyio.current_time() - before > _MOMENT:
            destination = await self._gate.readers.destination(address)
        now = self._clock.wall_ms()
        spoken = self._gate.output.recheck(delivery, destination, now, release, buttons=buttons, before=said)
        if spoken.decision.verdict not in MAY_GO_ON:
            row = self._row(delivery, spoken.decision)
            offered = await self._offered(delivery, destination, spoken.decision)
            return _Fate(DeliveryState.WITHHELD, audit=(row, *offered))
        if address.channel == SESSION:
            return await self._hand_over(delivery, spoken.text)
        return await self._say(delivery, turn, spoken.text, buttons)

    async def _said_before(self, delivery: Delivery) -> tuple[str, ...]:
        """Return what the turn of a delivery said at its address already, if a rule may look at all of it together."""
        if not self._gate.output.looks_across(delivery):
            return ()
        before = (
            one
            for one in await self._store.outbox.deliveries(delivery.sid)
            if (one.turn, one.address) == (delivery.turn, delivery.address) and one.state in _SAID
        )
        if Address.parse(delivery.address).channel == SESSION:
            # What is above, which a call passed on by reference, is held there apart, and decides nothing below.
            before = (one for one in before if one.label.flows_to(delivery.label))
        return tuple(one.text for one in before)

    async def _offered(self, delivery: Delivery, destination: Destination, decision: Decision) -> tuple[AuditRow, ...]:
        """Tell whoever asked in a shared chat, alone, where he may have an answer that is withheld there."""
        found = await self._alternatives.withheld(delivery, destination, decision, self._clock.wall_ms())
        if found is None:
            return ()
        notice, row = found
        await self._store.outbox.put(delivery.sid, notice)
        return (row,)

    def _obstacle(self, delivery: Delivery, address: Address) -> "_Fate | None":
        """Return why something is not said at all, None for what is."""
        repeated = delivery.state is DeliveryState.AMBIGUOUS and not delivery.replaces
        if repeated and address.channel != SESSION and not self._channels[address.channel].marks_repeats:
            return _Fate(DeliveryState.AMBIGUOUS)
        if self._clock.wall_ms() - delivery.created_at > self._oldest_ms:
            return _back(delivery) if repeated else self._unsaid(delivery, DeliveryState.EXPIRED, TOO_OLD)
        ours = delivery.approved == OURS
        if principals.is_anothers(self._gate.document, address, delivery.meant_for, ours=ours):
            return self._unsaid(delivery, DeliveryState.FAILED, NOT_THEIRS)
        return None

    async def _say(self, delivery: Delivery, turn: SendSlot, text: str, buttons: tuple[Button, ...]) -> "_Fate":
        """Send a text, and return what became of it."""
        outbound = Outbound(
            Address.parse(delivery.address),
            text,
            delivery.key,
            OutboundKind(delivery.kind),
            (delivery.doubtful or delivery.state is DeliveryState.AMBIGUOUS) and not delivery.replaces,
            _open(delivery.label),
            buttons,
            delivery.replaces,
        )
        try:
            receipt = await self._send(outbound)
        except BusyChannelError as error:
            return _back(delivery, await self._rate_limits.busy(turn, error))
        except ChannelError as error:
            _log_unsent(turn.address, error, delivery.label, attempt=delivery.failures + 1)
            return await (self._unedited if delivery.replaces else self._failed)(delivery, turn, error)
        except Exception as error:
            raise _BrokenSendError(error) from error
        return _Fate(DeliveryState.SENT, receipt=receipt)

    async def _failed(self, delivery: Delivery, turn: SendSlot, error: ChannelError) -> "_Fate":
        """Return what becomes of a text that was not said, or of which nobody knows."""
        if isinstance(error, AmbiguousSendError):
            return _Fate(DeliveryState.AMBIGUOUS)
        if isinstance(error, GoneError):
            await self._rate_limits.gone(turn)
            return self._unsaid(delivery, DeliveryState.FAILED, GONE)
        wait = await self._rate_limits.failed(turn, delivery.failures)
        return _back(delivery, wait, failed=True) if wait else self._unsaid(delivery, DeliveryState.FAILED, FAILED)

    async def _unedited(self, delivery: Delivery, turn: SendSlot, error: ChannelError) -> "_Fate":
        """Return what becomes of an edit that was not made: one more try, as what stands behind it waits."""
        if isinstance(error, GoneError) or delivery.failures:
            return self._unsaid(delivery, DeliveryState.FAILED, FAILED)
        return _back(delivery, await self._rate_limits.failed(turn, 0), failed=True)

    async def _buttons(self, delivery: Delivery, address: Address) -> tuple[Button, ...]:
        """Return the answers that a question or an offer takes, of a question those that its readers may give."""
        if delivery.kind == OutboundKind.OFFER:
            if delivery.interrupted:
                return interrupted_workflows.buttons(delivery.interrupted)
            held = told_of(delivery)
            return await self._alternatives.buttons(delivery.asked) if held is None else held
        if delivery.kind != OutboundKind.QUESTION:
            return ()
        document, audience = self._gate.document, await self._gate.readers.audience(address)
        known = (document.principal(one.account) for one in audience.readers)
        readers = frozenset(person[0] for person in known if person is not None) if audience.complete else None
        asked = tuple(one for one in await self._store.approvals.of(delivery.sid) if one.asked_in == delivery.asked)
        if asked and asked[0].is_question:
            return question_prompts.buttons(asked[0], readers)
        return approval_prompts.buttons(document, asked, delivery.asked, readers)

    async def _hand_over(self, delivery: Delivery, text: str) -> "_Fate":
        """Hand a text to another session, and return what that did with it."""
        arrival = await self._handoff.hand_over(delivery, text)
        if arrival is None:
            return _back(delivery)
        if arrival is Arrival.HELD:
            with suppress(NotFoundError):
                await self._holding.tell(delivery)
        return _Fate(DeliveryState.SENT if arrival in TAKEN else DeliveryState.FAILED, arrival=arrival)

    async def _settle(self, delivery: Delivery, fate: "_Fate") -> None:
        await self._store.outbox.settle(
            delivery,
            self.sender,
            fate.state,
            arrival=fate.arrival,
            wait=fate.wait,
            failed=fate.failed,
            receipt=fate.receipt,
            audit=fate.audit,
            paced=self._rate_limits.paced(delivery.address),
        )

    async def _release(self, delivery: Delivery) -> Release | None:
        """Return the record that releases a delivery, read from the log it was written to."""
        if not delivery.release:
            return None
        for event in await self._store.sessions.events(delivery.sid, after=delivery.release - 1, limit=1):
            this = event.seq == delivery.release and event.generation == delivery.generation
            if this and isinstance(event.body, ReleaseConfirmed):
                return event.body.release
        return None

    async def _send(self, outbound: Outbound) -> str:
        return await self._channels[outbound.address.channel].send(outbound)

    def _row(self, delivery: Delivery, decision: Decision) -> AuditRow:
        body = decision_facts(Hook.PRE_OUTPUT, decision, destination=delivery.address, key=delivery.key)
        return AuditRow("withheld", "outbox", body)

    def _unsaid(self, delivery: Delivery, state: DeliveryState, why: str) -> "_Fate":
        if delivery.replaces:
            # Nobody misses it: whoever presses a button that is left is told.
            return _Fate(DeliveryState.CANCELLED)
        _LOGGER.warning("a text was given up", extra={"reason": why, "destination": delivery.address})
        body: dict[str, JsonValue] = {"destination": delivery.address, "key": delivery.key, "reason": why}
        return _Fate(state, audit=(AuditRow(state.value, "outbox", body),))


def _log_unsent(address: Address | str, error: ChannelError, label: Label, attempt: int = 1) -> None:
    """Log that a channel did not take a text; the errors of channels hold no text and no token."""
    doubtful = isinstance(error, AmbiguousSendError)
    facts = {
        "subject": f"channel {str(address).partition(':')[0]}",
        "cause": str(error),
        "destination": str(address),
        "state": "nobody knows whether it was seen" if doubtful else "it was not seen",
        "attempt": attempt,
        "label": label,
    }
    _LOGGER.warning("a text was not delivered", extra=facts)


class _BrokenSendError(Exception):
    """An adapter broke in the middle of a send: nobody knows whether it was seen. `why` is its error."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


@dataclass(frozen=True, slots=True)
class _Fate:
    """What became of a delivery; a pending one is tried again after `wait` milliseconds."""

    state: DeliveryState
    arrival: Arrival | None = None
    wait: int = 0
    failed: bool = False
    receipt: str = ""
    audit: tuple[AuditRow, ...] = ()


def _back(delivery: Delivery, wait: int = 0, *, failed: bool = False) -> _Fate:
    """Give something back for a later try. Whether one in doubt was said stays in doubt, and is reported."""
    if delivery.state is DeliveryState.AMBIGUOUS and not delivery.replaces:
        return _Fate(DeliveryState.AMBIGUOUS)
    return _Fate(DeliveryState.PENDING, wait=wait, failed=failed)


def _open(label: Label) -> bool:
    """Say whether links may be followed in what has a label: whoever owns what a link names may know all of it."""
    return label.level is Level.PUBLIC and not label.compartments
