"""One webhook: the events of its program's sessions, in order within each, each until it is taken or given up.

The log is the queue to send. At each try the events are read first and the session's record after them. Then it is
decided whether the program may know of the session, and of the event, by its present clearance (law `no_read_up`) and a
token that is still valid. Of a session that rose above the program one constant event is sent, and nothing more. How
far it came is noted after the receiver answered, so an event is sent again, under the same id, if this process ends in
between.

An event costs the store two exchanges: one reads the new part of the log, the record and the policy's head, and one
notes the webhook's position. In between, while this process has the right, it knows that itself.

Sessions are sent side by side, a few at a time, as one that a receiver does not take must not hold up the others. A
receiver that failed just now, or that took nothing yet, is tried with one alone.
"""

import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Final

import anyio

from bot.access.tokens import ApiCaller, Tokens
from bot.core.clock import Clock
from bot.core.errors import SchemaError, StoreError
from bot.core.json_values import JsonObject
from bot.operations.reading import ReadingKind, SessionReader
from bot.operations.told_events import EventTeller
from bot.sessions.log.events import Event
from bot.sessions.models import SessionQuery, SessionState
from bot.sessions.ports.store import Store
from bot.sessions.visibility import sees
from bot.sessions.webhooks import UNAVAILABLE, DeadEvent, Ended, ProgramWebhook, WebhookPosition
from bot.webhooks.attempt import Attempted, Poster, WebhookMessage, message, signed
from bot.webhooks.positions import WebhookPositions
from bot.webhooks.secrets import WebhookSecrets
from policy.labels import Label

AT_ONCE: Final = 4
"""How many sessions of one webhook are sent at once."""

LONGEST_SECONDS: Final = 3600.0
"""The longest that a receiver may ask to be left alone."""

_PAGE: Final = 100
_JITTER: Final = 0.2
_PATIENCE: Final = 5
"""After how many failures in a row the whole webhook rests between tries, up to a minute."""

_LONGEST_REST: Final = 60.0
_AGAIN_SECONDS: Final = 1.0
"""When to look again where the store was away, or another policy is in force."""

_DAY_MS: Final = 86_400_000
_LOGGER: Final = logging.getLogger(__name__)

UNSIGNED: Final = "its secret is missing here, replace it"
BROKEN: Final = "it could not be sent from here, the operator's log tells why"
BROKE: Final = "a webhook cannot be sent"
"""The log's subject for it."""


class Slots:
    """How many requests a process makes at once, apart for receivers that work and for those that failed just now.

    So a receiver that hangs holds up none but others that fail, after its first try.
    """

    def __init__(self, working: int = 32, failing: int = 8) -> None:
        self._working, self._failing = anyio.Semaphore(working), anyio.Semaphore(failing)

    def of(self, *, failing: bool) -> anyio.Semaphore:
        """Return where a webhook waits for its turn."""
        return self._failing if failing else self._working


class RetryTimes:
    """When sessions are tried again, in seconds on one clock: each once, however often that is asked for."""

    def __init__(self) -> None:
        self._times = dict[str, float]()
        self._heap = list[tuple[float, str]]()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._heap)

    def put(self, sid: str, at: float) -> None:
        """Have a session tried at a time, unless it is sooner anyway."""
        if at < self._times.get(sid, inf):
            self._times[sid] = at
            heapq.heappush(self._heap, (at, sid))

    def due(self, now: float) -> Iterator[str]:
        """Take those whose time has come."""
        while self._heap and self._heap[0][0] <= now:
            at, sid = heapq.heappop(self._heap)
            if self._times.get(sid) == at:
                del self._times[sid]
                yield sid

    def wait(self, now: float) -> float | None:
        """Return in how many seconds the next one comes, None for never."""
        return max(self._heap[0][0] - now, 0.0) if self._heap else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingParts:
    """The parts that send webhooks.

    `in_force` says whether this process decides by the policy that the store named last, and `asks_in_force` asks it
    first. `now` is the time on the store's clock. `chance` is a random number from 0 to 1. `retries` are the seconds
    before each further try, `sweep_seconds` those between two looks for events without a hint.
    """

    store: Store
    tokens: Tokens
    reading: SessionReader
    teller: EventTeller
    poster: Poster
    secrets: WebhookSecrets
    slots: Slots
    clock: Clock
    top: Callable[[], Label]
    in_force: Callable[[], Awaitable[bool]]
    asks_in_force: Callable[[], Awaitable[bool]]
    now: Callable[[], int]
    chance: Callable[[], float]
    retries: Sequence[float]
    failing_days: float
    sweep_seconds: float


@dataclass(slots=True)
class _Stretch:
    """Events of a session that were read and not sent yet, up to `last`; `whole` says that the log had no more.

    `unseen` says that the webhook was not in the session yet, and only older events than the webhook came so far.
    """

    unseen: bool
    events: deque[Event] = field(default_factory=deque[Event])
    last: int = 0
    whole: bool = False

    @property
    def over(self) -> bool:
        """Whether all known events are done with; a hint tells of new ones."""
        return self.whole and not self.events

    def is_old(self, event: Event, since: int) -> bool:
        """Say whether an event was there before the webhook, made at `since`; after one that was not, none is.

        So a clock that is set back takes nothing from a webhook that was in the session.
        """
        self.unseen = self.unseen and event.ts < since
        return self.unseen

    def skip(self, seq: int) -> WebhookPosition:
        """Pass by all events of a session whose last is `seq`."""
        self.events.clear()
        self.whole = True
        return WebhookPosition(seq)


@dataclass(frozen=True, slots=True)
class _Step:
    """The next to be sent of a session, and where the webhook is when that is taken."""

    sent: WebhookMessage
    after: WebhookPosition
    state: SessionState


class WebhookDelivery:
    """Sends for one webhook, while `held` says that this process may."""

    def __init__(self, webhook: ProgramWebhook, parts: SendingParts, held: Callable[[], bool]) -> None:
        self.webhook = webhook
        self._parts, self._held = parts, held
        self._at = WebhookPositions(parts.store.webhooks, webhook.id)
        self._waiting = dict[str, None]()
        self._busy = set[str]()
        self._later = RetryTimes()
        self._failures, self._rest = 0, 0.0
        self._ended, self._taken = False, False
        self._news, self._asked = anyio.Event(), anyio.Event()

    @property
    def principal(self) -> str | None:
        """Whose sessions they are, None while its token does not count."""
        caller = self._parts.tokens.of(self.webhook.owner)
        return None if caller is None else caller.principal

    def look(self, sid: str) -> None:
        """Note that something changed in a session."""
        if self.webhook.covers(sid):
            self._waiting[sid] = None
            self._news.set()

    def renew(self, webhook: ProgramWebhook) -> None:
        """Take the webhook as the store has it now."""
        if webhook.wanted_at != self.webhook.wanted_at:
            self._asked.set()
        self.webhook = webhook

    async def serve(self) -> None:
        """Send until cancelled, first the events that were left."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._catch_up)
            tasks.start_soon(self._send_wanted)
            while not self._ended:
                self._news = anyio.Event()
                wait = self._start(tasks.start_soon)
                with anyio.move_on_after(wait):
                    await self._news.wait()
            tasks.cancel_scope.cancel()

    async def catch_up(self, since: int = 0) -> None:
        """Look at all sessions of the program that changed since, a moment on the store's clock. Raises StoreError."""
        if (principal := self.principal) is None:
            return
        top, cursor = self._parts.top(), ""
        while True:
            asked = SessionQuery(principal, top, cursor, _PAGE, since=since, archived=True)
            page = await self._parts.store.index.listed(asked)
            sids = tuple(state.sid for state in page.sessions if self.webhook.covers(state.sid))
            at = await self._at.read(sids)
            for state in page.sessions:
                known = at.get(state.sid)
                if known is None or (not known.closed and known.seq != state.seq):
                    self.look(state.sid)
            cursor = page.cursor
            if not cursor:
                return

    async def _catch_up(self) -> None:
        while True:
            with suppress(StoreError):
                await self.catch_up()
                return
            await anyio.sleep(_AGAIN_SECONDS)

    def _start(self, spawn: Callable[..., object]) -> float | None:
        """Begin with the sessions whose turn it is; return in how many seconds to look again, None for at any news."""
        now = self._parts.clock.monotonic()
        self._waiting.update(dict.fromkeys(self._later.due(now)))
        if self._rest > now:
            return self._rest - now
        room = (AT_ONCE if self._taken and not self._failures else 1) - len(self._busy)
        ready = (one for one in self._waiting if one not in self._busy)
        for sid in list(islice(ready, max(room, 0))):
            del self._waiting[sid]
            self._busy.add(sid)
            spawn(self._serve, sid)
        return self._later.wait(now)

    async def _serve(self, sid: str) -> None:
        try:
            stretch = _Stretch(unseen=await self._at.of(sid, self.webhook.enabled_at) is None)
            while not self._ended and await self._send_next(sid, stretch):
                pass
        except SchemaError:
            # It is another program's to read, or damaged; how far this came stays as it is.
            self._again(sid, _LONGEST_REST)
        except StoreError:
            self._again(sid, _AGAIN_SECONDS)
        except Exception:
            # One session that cannot be sent must not end the others.
            _LOGGER.exception(BROKE, extra={"webhook": self.webhook.id, "session": sid})
            self._again(sid, _LONGEST_REST)
        finally:
            self._busy.discard(sid)
            self._news.set()

    def _again(self, sid: str, seconds: float) -> None:
        self._later.put(sid, self._parts.clock.monotonic() + seconds)

    async def _send_next(self, sid: str, stretch: _Stretch) -> bool:
        """Send the next event of a session; return False if there is none, or not now."""
        async with self._slot():
            at = await self._at.of(sid, self.webhook.enabled_at)
            if at is not None and at.retry_at > (now := self._parts.now()):
                self._again(sid, (at.retry_at - now) / 1000)
                return False
            step = await self._next(sid, at, stretch)
            if step is None:
                return False
            answered = await self._send(step.sent)
        return await self._settle(step, at or WebhookPosition(), answered) and not stretch.over

    async def _caller(self) -> ApiCaller | None:
        """Return the program as it is by the policy that the store told last, None if nothing may be sent."""
        if not self._held() or not await self._parts.in_force():
            return None
        return self._parts.tokens.of(self.webhook.owner)

    def _slot(self) -> anyio.Semaphore:
        """Return where to wait for a turn among all webhooks of this process, before anything is decided."""
        return self._parts.slots.of(failing=self._failures > 0)

    async def _next(self, sid: str, at: WebhookPosition | None, stretch: _Stretch) -> _Step | None:
        """Decide what is sent next of a session; None for nothing more now."""
        known = at or WebhookPosition()
        while not known.closed:
            state = await self._read(sid, known, stretch)
            caller = await self._caller()
            if caller is None:
                return self._again(sid, _AGAIN_SECONDS)
            if state is None or state.principal != caller.principal:
                return await self._at.forget(sid) if at is not None else None
            reader = self._parts.tokens.reader(caller)
            if not sees(state, caller.principal, reader):
                return await self._closing(state, reader, at)
            if stretch.unseen and state.turn is None and state.updated_at < self.webhook.created_at:
                # Nothing of it is new.
                known = stretch.skip(max(known.seq, state.seq))
            while stretch.events:
                event = stretch.events.popleft()
                told = None if stretch.is_old(event, self.webhook.created_at) else self._told(state, event, reader)
                if told is not None:
                    await self._parts.reading.noted(caller.principal, state, ReadingKind.WEBHOOK)
                    return self._event(event, told, state)
                known = WebhookPosition(event.seq)
            if stretch.whole or not stretch.unseen:
                # In the middle of old events, a position would say that the rest of them are new.
                await self._pass(state, at, known)
                at = known
            if stretch.whole:
                break
        return None

    async def _pass(self, state: SessionState, at: WebhookPosition | None, known: WebhookPosition) -> None:
        """Keep how far events were passed by; while a turn runs that is not noted, as more of them follow soon."""
        if at is None or (known != at and (at.attempt or state.turn is None)):
            # Also where nothing was passed by: a rise is told from the position that was seen.
            await self._at.note(state.sid, known)
        else:
            self._at.passed(state.sid, known)

    async def _read(self, sid: str, at: WebhookPosition, stretch: _Stretch) -> SessionState | None:
        """Read more of a session's log, and its record after it.

        The record is never older than the events: it includes the session's taint when it wrote them.
        """
        after, limit = max(at.seq, stretch.last), max(_PAGE - len(stretch.events), 1)
        events, state = await self._parts.store.sessions.news(sid, after=after, limit=limit)
        if state is not None and at.seq > state.seq:
            # The note of the loss follows behind the position.
            await self._parts.store.losses.witness(sid, seq=at.seq)
        stretch.events.extend(events)
        stretch.last = events[-1].seq if events else after
        stretch.whole = len(events) < limit
        return state

    async def _send_wanted(self) -> None:
        """Send the events that programs want to be tried once more, until cancelled."""
        while True:
            self._asked = anyio.Event()
            if self.webhook.wanted_at and not await self._sent_wanted():
                await anyio.sleep(_AGAIN_SECONDS)
                continue
            await self._asked.wait()

    async def _sent_wanted(self) -> bool:
        """Try once more all that is wanted; return whether that was done."""
        done = True
        try:
            wanted = [one for one in await self._parts.store.webhooks.dead(self.webhook.id) if one.again]
        except StoreError:
            return False
        for dead in wanted:
            try:
                done = await self._send_again(dead) and done
            except StoreError:
                done = False
        return done

    async def _send_again(self, dead: DeadEvent) -> bool:
        """Try an undelivered event once more, if its program may still know of it; else it is forgotten.

        Return False if nothing may be sent now.
        """
        async with self._slot():
            events, state = await self._parts.store.sessions.news(dead.sid, after=dead.seq - 1, limit=1)
            caller = await self._caller()
            if caller is None:
                return False
            reader, answered = self._parts.tokens.reader(caller), Attempted()
            if events and state is not None and sees(state, caller.principal, reader):
                told = self._told(state, events[0], reader)
                if told is not None:
                    await self._parts.reading.noted(caller.principal, state, ReadingKind.WEBHOOK)
                    answered = await self._send(self._event(events[0], told, state).sent)
        await self._parts.store.webhooks.settle(dead, answered.error)
        if answered.gone:
            await self._fails(answered)
        return True

    def _told(self, state: SessionState, event: Event, reader: Label) -> JsonObject | None:
        """Return an event's body for a program, None where it passes no filter or may not be known.

        Events before the last reset are told to no program any more.
        """
        if event.generation != state.generation or not self.webhook.wants(event):
            return None
        return self._parts.teller.told(state, event, reader)

    def _event(self, event: Event, told: JsonObject, state: SessionState) -> _Step:
        sent = message(
            self.webhook.event_id(state.sid, event.seq), event.type, event.ts, {"session": state.sid, "event": {**told}}
        )
        return _Step(sent, WebhookPosition(event.seq), state)

    async def _closing(self, state: SessionState, reader: Label, at: WebhookPosition | None) -> _Step | None:
        """Return the one event that ends a session that rose; none where its program could not know of it before."""
        own = state.lineage is None and state.created_at >= self.webhook.created_at and state.creation.flows_to(reader)
        closed = WebhookPosition(at.seq if at else 0, closed=True)
        if at is None and not own:
            await self._at.note(state.sid, closed)
            return None
        sent = message(
            self.webhook.event_id(state.sid, 0), UNAVAILABLE, self._parts.clock.wall_ms(), {"session": state.sid}
        )
        return _Step(sent, closed, state)

    async def _send(self, sent: WebhookMessage) -> Attempted:
        secrets = await self._parts.secrets.all(self.webhook.id)
        if not secrets:
            return Attempted(UNSIGNED)
        try:
            headers = signed(sent, secrets, self._parts.clock.wall_ms())
            return await self._parts.poster.post(self.webhook.url, headers, sent.payload)
        except Exception:
            # It counts as a try: so it is given up some time, and ends nothing else.
            _LOGGER.exception(BROKE, extra={"webhook": self.webhook.id, "event": sent.id})
            return Attempted(BROKEN)

    async def _settle(self, step: _Step, at: WebhookPosition, answered: Attempted) -> bool:
        """Note the outcome of a try; return whether the next may follow."""
        sid = step.state.sid
        if not answered.error:
            self._failures, self._rest, self._taken = 0, 0.0, True
            await self._at.note(sid, step.after)
            await self._works()
            return True
        await self._fails(answered)
        attempt = at.attempt + 1
        if attempt <= len(self._parts.retries):
            wait = self._pause(attempt, answered.after)
            # The events before it are done with: they were not for this webhook.
            seq = at.seq if step.after.closed else step.after.seq - 1
            tried = WebhookPosition(max(at.seq, seq), attempt)
            await self._at.note(sid, tried, now=self._parts.now(), wait=round(wait * 1000))
            self._again(sid, wait)
            return False
        if step.after.closed:
            await self._at.note(sid, step.after)
            return False
        await self._at.give_up(self._dead(step, attempt, answered))
        return True

    def _dead(self, step: _Step, attempts: int, answered: Attempted) -> DeadEvent:
        at = step.after.seq
        return DeadEvent(step.sent.id, self.webhook.id, step.state.sid, at, 0, attempts, answered.error)

    def _pause(self, attempt: int, after: float) -> float:
        """Return how many seconds to wait before the next try: as configured, or as the receiver asks."""
        usual = self._parts.retries[attempt - 1] * (1 + _JITTER * (2 * self._parts.chance() - 1))
        return max(usual, min(after, LONGEST_SECONDS))

    async def _works(self) -> None:
        if self.webhook.failing:
            await self._parts.store.webhooks.mark(self.webhook.id, failing=False)
            self.webhook = replace(self.webhook, failing=0)

    async def _fails(self, answered: Attempted) -> None:
        """Note that a try failed, and end it all where the receiver says so, or has failed for days."""
        self._failures += 1
        over = self._failures - _PATIENCE
        if over >= 0:
            self._rest = self._parts.clock.monotonic() + min(2.0**over, _LONGEST_REST)
        ended = Ended.GONE if answered.gone else None
        if self.webhook.failing and self._parts.now() - self.webhook.failing > self._parts.failing_days * _DAY_MS:
            ended = ended or Ended.FAILING
        if ended or not self.webhook.failing:
            await self._parts.store.webhooks.mark(self.webhook.id, failing=True, disabled=ended)
            self.webhook = replace(self.webhook, failing=self.webhook.failing or self._parts.now(), disabled=ended)
        if ended:
            self._ended = True
            self._news.set()
