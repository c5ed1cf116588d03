"""The outbox: the only module that sends.

`deliver` sends committed texts durably; `preview` shows an answer while it is written; `reply` answers a command at
once; `signal` shows work, without free text. Every text is decided on again here, against the present readers (law
`no_write_down`). A text to another session is handed to its inbox.

An entry whose sender vanished in mid-send is sent again only where the adapter can mark it as a possible repeat;
elsewhere it is reported. An entry that cannot be sent yet goes back to the store with the time of its next try, and so
do later entries to the same address. An entry that will not be sent becomes a dead letter. An edit may be made twice,
and one that cannot be made is dropped.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from bot.access import labelling, principals
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
from bot.sessions.approvals import ApprovalState
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import SESSION, Arrival
from bot.sessions.background.runs import RUN
from bot.sessions.consents.releases import Release
from bot.sessions.deliveries import OURS, Delivery, DeliveryState, NewDelivery, SendSlot
from bot.sessions.log.event_types import ReleaseConfirmed
from bot.sessions.ports.store import Store
from bot.telemetry.telemetry import Telemetry
from channels.messages import Address, Button, Outbound, OutboundKind, Signal
from channels.port import (
    AmbiguousSendError,
    BusyChannelError,
    ButtonKeeper,
    Channel,
    ChannelError,
    GoneError,
    Left,
)
from policy.decision import Decision
from policy.labels import PUBLIC, Label, Level
from policy.request import Destination, Hook

if TYPE_CHECKING:
    from pydantic import JsonValue

REMOVED_REPLY: Final = (
    "The answer holds data of a compartment that the policy does not have any more, so it is not shown."
    " If this conversation has read such data, `/reset confirm` begins a new one; in a shared chat an admin types it."
)
WITHHELD_REPLY: Final = "The answer may not be shown here, ask for it where more may be told."
"""Sent instead of a reply that may not be said, if at least this may."""

GONE: Final = "nobody is there any more"
TOO_OLD: Final = "it waited for too long"
FAILED: Final = "it failed every time"
NOT_MARKED: Final = "this channel cannot mark a text from outside"
NOT_THEIRS: Final = "the recipient of this chat has changed"
"""Why a text was not sent, in the audit."""

_SAID: Final = frozenset({DeliveryState.SENT, DeliveryState.AMBIGUOUS})

_LOGGER: Final = logging.getLogger(__name__)

_MOMENT: Final = 0.01
"""Seconds after which readers are asked for again."""


class Outbox:
    """Sends over the channels of this process. `sender` is this process's name in the store.

    `in_force` says whether this process decides by the policy in force. If not, it leaves deliveries to others. Entries
    older than `hours` are not sent any more.
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
        """Send entries that this process claimed, in order; after one that goes back, the rest of its address does too.

        Raises StoreError: the store failed. Entries that were certainly not sent go back and are sent later. The
        outcomes of the others are written down once the store takes writes again.
        """
        patience, waiting, failed = Patience(), set[str](), list[Exception]()
        for delivery in deliveries:
            # A stop in mid-send would leave a text with an unknown outcome.
            with anyio.CancelScope(shield=True), bound(session=delivery.sid, turn=delivery.turn):
                behind = delivery.address in waiting
                fate = self._back(delivery) if behind else await self._tried(delivery, patience, failed)
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
        """Claim and send the waiting entries of a session's outbox: after a crash, or committed by another process.

        Raises StoreError: as `deliver`.
        """
        if not await self._in_force():
            return
        await self.settle_owed(sid)
        op = self._lost.pop(sid, "") or self._ids.op()
        try:
            taken = await self._store.outbox.take(sid, self.sender, self.channels, op=op)
        except (StoreError, anyio.get_cancelled_exc_class()):
            # It may have succeeded with only its answer lost: the same `op` again gives the same answer.
            self._lost[sid] = op
            raise
        await self.deliver(taken)

    def unsaid(self, deliveries: tuple[Delivery, ...]) -> None:
        """Note that entries which the store may have given to this process are not sent: it never learned of them."""
        for delivery in deliveries:
            self._owed[delivery.sid, delivery.key] = (delivery, _Fate(DeliveryState.PENDING))

    async def settle_owed(self, sid: str = "") -> None:
        """Write down outcomes, of one session or of all, that the store did not take before.

        Raises StoreError: it still does not.
        """
        for name, owed in tuple(self._owed.items()):
            if sid and sid != name[0]:
                continue
            try:
                await self._settle(*owed)
            except (StoreGoneError, StoreRefusedError):
                raise
            except StoreError:
                # Its record cannot be read, which will not change.
                self._pay(name, owed)
                raise
            self._pay(name, owed)

    def _pay(self, name: tuple[str, str], owed: "tuple[Delivery, _Fate]") -> None:
        """Forget an owed outcome, unless another try of that text owes another one by now."""
        if self._owed.get(name) is owed:
            del self._owed[name]

    async def catch_up(self) -> tuple[str, ...]:
        """Write down outcomes that the store did not take; return the sessions with entries this process may hold.

        Raises StoreError: it still does not.
        """
        await self.settle_owed()
        return tuple(self._lost)

    async def reply(
        self, standing: DecisionContext, text: str, label: Label, *, press: str = "", buttons: tuple[Button, ...] = ()
    ) -> None:
        """Answer a command at its address, now or never: a command is given again if its answer is lost.

        `label` is that of the text, `press` the press on a button that it answers. The decision is in the audit before
        anything is sent.
        """
        destination = await self._gate.readers.destination(standing.home)
        readers = destination.clearance or PUBLIC
        removed = labelling.only_removed_lacks(self._gate.document, label, readers)
        withheld = REMOVED_REPLY if removed else WITHHELD_REPLY
        for said, about, offered in ((text, label, buttons), (withheld, PUBLIC, ())):
            decided = await self._decided(standing, destination, text=said, label=about, buttons=offered)
            if decided is not None:
                # A person is there, who asked.
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
        """Send a text to a person who did not ask, now or never; return whether it was sent.

        `label` is that of the text.
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
        """Return the part of the program's own text that may be said, None for none, after auditing the decision."""
        await self._gate.output.read_ahead((text,))
        spoken = self._gate.output.reply(standing, destination, text, label, buttons=buttons)
        row = decision_row(standing, Hook.PRE_OUTPUT, spoken.decision, destination=str(standing.home))
        await self._store.audit.append((row,))
        return spoken.text if spoken.decision.verdict in MAY_GO_ON else None

    async def _answer(
        self, standing: DecisionContext, destination: Destination, outbound: Outbound, label: Label
    ) -> None:
        """Send a text; if that takes long, leave it in the outbox of the session, if the session exists."""
        turn = SendSlot(str(standing.home))
        wait = await self._rate_limits.wait(turn, shared=destination.shared, patience=Patience())
        if not wait:
            try:
                await self._send(outbound)
            except BusyChannelError as error:
                wait = await self._rate_limits.busy(turn, error)
            except ChannelError as error:
                # The command's effect is done: if its platform cannot be answered, it must not redeliver the command.
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
        """Return a preview of an answer at the session's home while it is written; `key` is the answer's."""
        return Preview(
            self._channels.get(standing.home.channel),
            self._gate,
            audit=self._store.audit,
            rate_limits=self._rate_limits,
            standing=standing,
            key=key,
        )

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that work continues, if this process has the channel."""
        channel = self._channels.get(address.channel)
        if channel is not None:
            with suppress(ChannelError):
                await channel.signal(address, signal)

    async def spend(self, address: Address, press: str, left: Left) -> None:
        """Take away the buttons of the message of a press, besides those that are left, if its channel can do that."""
        channel = self._channels.get(address.channel)
        if isinstance(channel, ButtonKeeper):
            with suppress(ChannelError):
                await channel.spend(press, left)

    async def _tried(self, delivery: Delivery, patience: Patience, failed: list[Exception]) -> "_Fate":
        """Send an entry, and return its outcome; errors join `failed`."""
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
            # Between sending a text and its outcome no request goes to the store.
            failed.append(error)
            return self._back(delivery)
        except _BrokenSendError as error:
            failed.append(error.why)
            return _Fate(DeliveryState.AMBIGUOUS)
        except Exception as error:  # noqa: BLE001 - a bug in one text must not leave the others claimed and unsaid
            failed.append(error)
            return self._back(delivery)

    def _back(self, delivery: Delivery, wait: int = 0, *, failed: bool = False) -> "_Fate":
        """Give back an entry that was certainly not sent now, for a try after `wait` milliseconds.

        One in doubt is shown then with its mark; where its channel has none, it stays in doubt and is reported.
        """
        channel = Address.parse(delivery.address).channel
        marks = channel == SESSION or self._channels[channel].marks_repeats
        if delivery.state is DeliveryState.AMBIGUOUS and not delivery.replaces and not marks:
            return _Fate(DeliveryState.AMBIGUOUS)
        return _Fate(DeliveryState.PENDING, wait=wait, failed=failed)

    async def _deliver(self, delivery: Delivery, patience: Patience) -> "_Fate":
        """Send an entry, and return its outcome."""
        if not await self._in_force():
            # Claimed before that was known.
            return self._back(delivery)
        address, turn = Address.parse(delivery.address), SendSlot(delivery.address, delivery.sid, delivery.key)
        obstacle = self._obstacle(delivery, address) or await self._over(delivery)
        if obstacle is not None:
            return obstacle
        destination, before = await self._gate.readers.destination(address), anyio.current_time()
        wait = await self._rate_limits.wait(turn, shared=destination.shared, patience=patience)
        if wait != 0:
            return self._back(delivery, wait) if wait else self._unsaid(delivery, DeliveryState.FAILED, GONE)
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
        """Return the earlier texts of an entry's turn to its address, if a rule may look at all of them together."""
        if not self._gate.output.looks_across(delivery):
            return ()
        before = (
            one
            for one in await self._store.outbox.deliveries(delivery.sid)
            if (one.turn, one.address) == (delivery.turn, delivery.address) and one.state in _SAID
        )
        if Address.parse(delivery.address).channel == SESSION:
            # Texts above it, which a call passed on by reference, are held there apart, and decide nothing below.
            before = (one for one in before if one.label.flows_to(delivery.label))
        return tuple(one.text for one in before)

    async def _offered(self, delivery: Delivery, destination: Destination, decision: Decision) -> tuple[AuditRow, ...]:
        """Offer the asker in a shared chat, alone, another place for an answer that is withheld there."""
        found = await self._alternatives.withheld(delivery, destination, decision, self._clock.wall_ms())
        if found is None:
            return ()
        notice, row = found
        await self._store.outbox.put(delivery.sid, notice)
        return (row,)

    def _obstacle(self, delivery: Delivery, address: Address) -> "_Fate | None":
        """Return the outcome of an entry that is not sent at all, None for one that is."""
        repeated = delivery.state is DeliveryState.AMBIGUOUS and not delivery.replaces
        if repeated and address.channel != SESSION and not self._channels[address.channel].marks_repeats:
            return _Fate(DeliveryState.AMBIGUOUS)
        if self._clock.wall_ms() - delivery.created_at > self._oldest_ms:
            if repeated:
                return _Fate(DeliveryState.AMBIGUOUS)
            return self._unsaid(delivery, DeliveryState.EXPIRED, TOO_OLD)
        if delivery.untrusted and address.channel != SESSION and not self._channels[address.channel].marks_untrusted:
            return self._unsaid(delivery, DeliveryState.FAILED, NOT_MARKED)
        ours = delivery.approved == OURS
        if principals.is_anothers(self._gate.document, address, delivery.meant_for, ours=ours):
            return self._unsaid(delivery, DeliveryState.FAILED, NOT_THEIRS)
        return None

    async def _say(self, delivery: Delivery, turn: SendSlot, text: str, buttons: tuple[Button, ...]) -> "_Fate":
        """Send a text, and return its outcome."""
        outbound = Outbound(
            Address.parse(delivery.address),
            text,
            delivery.key,
            OutboundKind(delivery.kind),
            (delivery.doubtful or delivery.state is DeliveryState.AMBIGUOUS) and not delivery.replaces,
            _open(delivery.label) and not delivery.untrusted,
            buttons,
            delivery.replaces,
            untrusted=delivery.untrusted,
        )
        try:
            receipt = await self._send(outbound)
        except BusyChannelError as error:
            return self._back(delivery, await self._rate_limits.busy(turn, error))
        except ChannelError as error:
            _log_unsent(turn.address, error, delivery.label, attempt=delivery.failures + 1)
            return await (self._unedited if delivery.replaces else self._failed)(delivery, turn, error)
        except Exception as error:
            raise _BrokenSendError(error) from error
        return _Fate(DeliveryState.SENT, receipt=receipt)

    async def _failed(self, delivery: Delivery, turn: SendSlot, error: ChannelError) -> "_Fate":
        """Return the outcome of a text that was not sent, or whose outcome is unknown."""
        if isinstance(error, AmbiguousSendError):
            return _Fate(DeliveryState.AMBIGUOUS)
        if isinstance(error, GoneError):
            await self._rate_limits.gone(turn)
            return self._unsaid(delivery, DeliveryState.FAILED, GONE)
        wait = await self._rate_limits.failed(turn, delivery.failures)
        return self._back(delivery, wait, failed=True) if wait else self._unsaid(delivery, DeliveryState.FAILED, FAILED)

    async def _unedited(self, delivery: Delivery, turn: SendSlot, error: ChannelError) -> "_Fate":
        """Return the outcome of an edit that was not made: one more try, since later entries wait for it."""
        if isinstance(error, GoneError) or delivery.failures:
            return self._unsaid(delivery, DeliveryState.FAILED, FAILED)
        return self._back(delivery, await self._rate_limits.failed(turn, 0), failed=True)

    async def _buttons(self, delivery: Delivery, address: Address) -> tuple[Button, ...]:
        """Return the buttons of a question or an offer; those of a question only for readers who may answer."""
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

    async def _over(self, delivery: Delivery) -> "_Fate | None":
        """Return the outcome of a text about a question that came too late, None for any other entry.

        A reminder is too late once its question is over. An edit that takes the buttons away is too late if the store
        lost the answer, so that the question waits again.
        """
        if not (delivery.reminds or delivery.replaces):
            return None
        asked = await self._store.approvals.of(delivery.sid)
        waits = any(one.asked_in == delivery.asked and one.state is ApprovalState.PENDING for one in asked)
        return _Fate(DeliveryState.CANCELLED) if waits is bool(delivery.replaces) else None

    async def _hand_over(self, delivery: Delivery, text: str) -> "_Fate":
        """Hand a text to another session, and return its outcome there."""
        arrival = await self._handoff.hand_over(delivery, text)
        if arrival is None:
            return self._back(delivery)
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
        """Return the record that releases an entry, read from the log it was written to."""
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
            # It is not missed: pressing a leftover button gives a notice.
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
    """An adapter broke in the middle of a send, so its outcome is unknown. `why` is its error."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why


@dataclass(frozen=True, slots=True)
class _Fate:
    """The outcome of a delivery; a pending one is tried again after `wait` milliseconds."""

    state: DeliveryState
    arrival: Arrival | None = None
    wait: int = 0
    failed: bool = False
    receipt: str = ""
    audit: tuple[AuditRow, ...] = ()


def _open(label: Label) -> bool:
    """Say whether links may be followed in a text of this label: the owner of a link's target may learn all of it."""
    return label.level is Level.PUBLIC and not label.compartments
