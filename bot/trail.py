"""The audit as people in a chat may read it: which of its rows an address may be told, and under what names.

Every row has a label: those it names, and of the session it stands in or tells of everything that session ever held.
A row above the reader is as if it were not there (law `no_read_up`). So rows bear no numbers here, from which the
others could be counted, but a part of their hash, which nobody can compute without the key. Nothing is written.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from bot.audit import Intact
from bot.chains import OUTSIDE, Chains
from bot.labelling import CONFIGURED
from bot.sessions.json import JsonObject
from bot.sessions.port import AuditStore, SessionStore
from bot.sessions.records import AuditRecord
from bot.sessions.values import SessionState
from bot.sessions.visible import LONGEST_ID
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, join_all, parse

SCANNED: Final = 2000
"""Rows of a chain that are looked through, the newest."""

_PAGE: Final = 200
_ID: Final = 12
_LABELS: Final = ("before", "after", "label", "taint")
_SESSIONS: Final = ("session", "export")
_OPEN: Final = frozenset({"access", "classify", "install_link", "moved", "refused"})
"""Kinds of rows outside sessions that tell what commands tell every admin anywhere, such as `/pair list`."""

_POLICY: Final = "policy"
"""Rows that name policies by their digests, and the process that put one in force."""

_LABELLED: Final = frozenset({"decision", "failed", "offer", "simulate"})
"""Kinds of rows outside sessions that name labels or a session."""


class Store(SessionStore, AuditStore, Protocol):
    """What the trail asks of the store."""


@dataclass(frozen=True, slots=True)
class Told:
    """A row that may be told: its name here, and the label of what it tells."""

    id: str
    record: AuditRecord
    label: Label


@dataclass(frozen=True, slots=True)
class Verified:
    """What may be told of whether chains hold: how many do, the names of those that do not, and the label of that."""

    intact: int
    broken: tuple[str, ...]
    label: Label


class Trail:
    """Reads the chains of an installation for people; `top` tells the highest label there is."""

    def __init__(self, store: Store, chains: Chains, top: Callable[[], Label]) -> None:
        self._store = store
        self._chains = chains
        self._top = top

    async def rows(self, chain: str, reader: Label) -> AsyncIterator[Told]:
        """Yield the rows of a chain that may be told, newest first; none of one that does not exist."""
        floor, known = PUBLIC, dict[str, Label]()
        if chain != OUTSIDE:
            floor = await self._session(chain, known)
            if not floor.flows_to(reader):
                return
        newest, _hash = await self._store.head(chain)
        last = max(0, newest - SCANNED)
        while newest > last:
            after = max(newest - _PAGE, last)
            for record in reversed(await self._store.records(chain, after=after, limit=newest - after)):
                label = floor.join(await self._row(chain, record, known))
                if label.flows_to(reader):
                    yield Told(f"{chain}:{record.hash[:_ID]}", record, label)
            newest = after

    async def find(self, name: str, reader: Label) -> Told | None:
        """Return the row of a name, None if none that may be told has it."""
        async for told in self.rows(name.rpartition(":")[0], reader):
            if told.id == name:
                return told
        return None

    async def verified(self, reader: Label) -> Verified:
        """Check every chain that may be known of; where one does not hold is not told, as that counts its rows."""
        intact, broken, labels = 0, list[str](), list[Label]()
        for chain in sorted({OUTSIDE, *await self._chains.names()}):
            label = PUBLIC if chain == OUTSIDE else self._visibility(await self._store.state(chain))
            if not label.flows_to(reader):
                continue
            labels.append(label)
            if isinstance(await self._chains.verify(chain), Intact):
                intact += 1
            else:
                broken.append(chain)
        return Verified(intact, tuple(broken), join_all(labels))

    def _visibility(self, state: SessionState | None) -> Label:
        return self._top() if state is None else state.visibility

    async def _session(self, sid: str, known: dict[str, Label]) -> Label:
        """Return the label of everything a session ever held: its rows also tell of what its context never had."""
        if sid not in known:
            state = await self._store.state(sid) if len(sid) <= LONGEST_ID else None
            label, after = self._visibility(state), 0
            while state is not None and (events := await self._store.events(sid, after=after)):
                label = join_all((event.label for event in events), label)
                after = events[-1].seq
            known[sid] = label
        return known[sid]

    async def _row(self, chain: str, record: AuditRecord, known: dict[str, Label]) -> Label:
        """Return the label of what a row tells by itself; of one that nothing is known of it is the highest."""
        if chain != OUTSIDE:
            return join_all(self._named(record.body))
        if record.kind in _OPEN:
            return PUBLIC
        if record.kind == _POLICY:
            return CONFIGURED
        sessions = [str(record.body[name]) for name in _SESSIONS if name in record.body]
        labels = [*self._named(record.body), *[await self._session(sid, known) for sid in sessions]]
        return join_all(labels) if labels and record.kind in _LABELLED else self._top()

    def _named(self, body: JsonObject) -> list[Label]:
        """Return the labels that a row of ours names."""
        return [self._read(body[name]) for name in _LABELS if name in body]

    def _read(self, written: object) -> Label:
        try:
            return parse(str(written))
        except LabelTextError:
            return self._top()
