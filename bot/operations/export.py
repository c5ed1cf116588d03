"""Making an export of a session, and checking a file that says to be one: one way for chat and command line.

An export is decided like any text that leaves (hook PRE_OUTPUT), for the address it is shown at, before it is signed.
The caller has checked before that the session may be known.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bot.access.decision_context import DecisionContext
from bot.core.json_values import mapped_object
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.history import event_log
from bot.operations.signing import ExportKey, signed_by
from bot.sessions import exports, refs
from bot.sessions.deliveries import OURS
from bot.sessions.exports import BrokenExport, ExportEntry, Header, VerifiedExport
from bot.sessions.log.events import Event, Visibility
from bot.sessions.models import LastTurn, SessionState, Title
from bot.sessions.ports.store import Store
from bot.sessions.refs import EventsRef, Ref
from bot.sessions.transcript import backwards, place
from bot.tools.arguments import strings
from policy import explain
from policy.decision import Decision
from policy.labels import Label, join_all
from policy.request import Hook

EXPORTED: Final = explain.LabelWording("The export would be labelled", "With it")
"""The subjects of the labels of a refused export."""


@dataclass(frozen=True, slots=True)
class Export:
    """The outcome: `text` is the signed file, None if the decision refuses it; `label` is that of the whole."""

    decision: Decision
    label: Label
    entries: int
    text: str | None


class Exporter:
    """Exports sessions; `keys` returns the installation's audit keys that are not retired, the newest first."""

    def __init__(self, gate: Gate, store: Store, keys: Callable[[], Sequence[bytes]]) -> None:
        self._gate = gate
        self._store = store
        self._keys = keys

    async def export(
        self,
        standing: DecisionContext,
        state: SessionState,
        *,
        whole: bool = False,
        approved: tuple[str, ...] = OURS,
        left_out: Callable[[Event], bool] | None = None,
    ) -> Export:
        """Export the generation of a session, as far as the caller may know; the decision is audited.

        `whole` adds the events that conversations do not show: withheld answers, held items, thoughts, errors. Such an
        export can be imported. `approved` are the rules that ask people and do not count. For a program that is to have
        a whole one they count: it must not read an answer that still waits for people. `left_out` says of an event that
        it is not exported.
        """
        log = backwards(self._store.sessions, state)
        events = [event async for event in log if left_out is None or not left_out(event)]
        entries = [*self._entries(events, state, standing.reader, whole=whole)]
        entries.reverse()
        title = self._title(state, standing.reader)
        label = join_all((entry.label for entry in entries), state.visibility)
        label = label if title is None else label.join(title.label)
        told = [text for entry in entries for text in (entry.actor, *strings(dict(entry.body)))]
        content = "\n".join(told if title is None else (title.text, *told))
        about = replace(standing, taint=label)
        decision = self._gate.output.speak(about, standing.destination, content, approved=approved).decision
        # Before anything is awaited: by the policy that decided.
        entries = [_changed(entry, lambda text: self._gate.masks.cleaned(text, decision)) for entry in entries]
        text = digest = None
        if decision.verdict in MAY_GO_ON:
            if title is not None:
                title = replace(title, text=self._gate.masks.cleaned(title.text, decision))
            turn = _last_turn(state) if whole else None
            head = Header(state.sid, state.generation, label, standing.now, title, turn)
            # In a thread, as it may be large: other requests do not wait for it.
            text, digest = await asyncio.to_thread(self._sealed, head, entries)
        row = decision_row(
            about,
            Hook.PRE_OUTPUT,
            decision,
            destination=standing.destination.address,
            export=state.sid,
            digest=digest,
        )
        await self._store.audit.append((row,))
        return Export(decision, label, len(entries), text)

    def _sealed(self, head: Header, entries: Sequence[ExportEntry]) -> tuple[str, str]:
        """Return the signed file and its digest."""
        text = exports.sealed(ExportKey(self._keys()[0]), head, entries)
        return text, hashlib.sha256(text.encode()).hexdigest()

    def verified(self, file: bytes) -> VerifiedExport | BrokenExport:
        """Check a file; whose key signed it is not looked at."""
        return exports.verified(signed_by, file)

    def public_key(self) -> str:
        """Return the public half of the key that signs the exports of this installation. It blocks."""
        return ExportKey(self._keys()[0]).public

    def _title(self, state: SessionState, reader: Label) -> Title | None:
        """Return a session's title, secrets masked, if it may be known."""
        title = state.title
        if title is None or not title.label.flows_to(reader):
            return None
        return replace(title, text=self._gate.masks.masked(title.text))

    def _entries(
        self, events: Iterable[Event], state: SessionState, reader: Label, *, whole: bool
    ) -> Iterator[ExportEntry]:
        """Yield the entries of events that may be known, in their order, secrets masked."""
        for event in events:
            if event.label.flows_to(reader) and (whole or event.visibility is not Visibility.INTERNAL):
                body = event_log.told_to(event, reader, whole=whole)
                entry = ExportEntry(
                    place(event, state),
                    event.ts,
                    event.actor,
                    event.type,
                    event.label,
                    body,
                    event.visibility,
                    event.admitted,
                    event.turn,
                    _refs(event, state) if whole else "",
                )
                yield _changed(entry, self._gate.masks.masked)


def _last_turn(state: SessionState) -> LastTurn | None:
    """Return how the last turn ended, its events by their places in the generation."""
    turn, before = state.last_turn, state.generation_seq - 1
    return turn and replace(turn, seq=max(turn.seq - before, 0), result_seq=max(turn.result_seq - before, 0))


def _refs(event: Event, state: SessionState) -> str:
    """Write the sources of an event, events of its own session by their places in the generation."""
    before, shown = state.generation_seq - 1, list[Ref]()
    for ref in event.refs:
        if not isinstance(ref, EventsRef) or ref.session:
            shown.append(ref)
        elif ref.last > before:
            shown.append(EventsRef(max(ref.first - before, 1), ref.last - before))
    return refs.written(shown)


def _changed(entry: ExportEntry, change: Callable[[str], str]) -> ExportEntry:
    return replace(entry, actor=change(entry.actor), body=mapped_object(entry.body, change))
