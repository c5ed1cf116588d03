"""The audit as people in a chat may read it: the rows that an address may be shown, and their names.

Every row has a label: the join of the labels it names, and of everything that the sessions it is about ever held. A row
above the reader is hidden completely (law `no_read_up`). So rows have no numbers here, which would reveal the number of
hidden ones. They are named by a part of their hash, which cannot be computed without the key; limits count only visible
rows. Unreadable rows are above every reader. Nothing is written.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from heapq import nlargest
from math import inf
from typing import Final

from bot.access.labelling import CONFIGURED
from bot.audit.anchors import OUTSIDE, AnchoredChains
from bot.core.errors import SchemaError
from bot.core.json_values import JsonObject
from bot.sessions.audit import AuditRecord
from bot.sessions.background.delegation import SESSION
from bot.sessions.models import SessionState
from bot.sessions.ports.store import Store
from bot.sessions.visibility import LONGEST_ID
from channels.messages import Address
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, join_all, parse

SCANNED: Final = 2000
"""The newest visible rows of a chain, at most: older ones are not looked for."""

CHECKED: Final = 50
"""The most chains of sessions that are checked at once, those that changed last: people wait meanwhile."""

_PAGE: Final = 200
_ID: Final = 12
_LABELS: Final = ("before", "after", "label", "taint")
_SESSIONS: Final = ("session", "export")
_OPEN: Final = frozenset({"access", "classify", "install_link", "moved"})
"""Kinds of rows outside sessions whose content commands show every admin in any chat, such as `/pair list`."""

_REFUSED: Final = "refused"
_ROUTER: Final = "router"
"""The only actor whose rows of refusals have no label: they hold no content of a session."""

_POLICY: Final = "policy"
"""Rows that name policies by their digests, and the process that put one in force."""

_LABELLED: Final = frozenset(
    {"decision", "failed", "offer", "quarantined", "read", "recorded", "refused", "released", "simulate"}
)
"""Kinds of rows outside sessions that name labels or a session."""

_OPERATORS: Final = frozenset({"facts", "would"})
"""The facts of a row that only an operator reads: those behind a decision, and results of rules that are `log_only`."""


@dataclass(frozen=True, slots=True)
class VisibleRow:
    """A visible row: its name here, and the label of its content."""

    id: str
    record: AuditRecord
    label: Label


@dataclass(frozen=True, slots=True)
class VisibleChains:
    """Sessions whose chains may be known of, and the label of the list.

    `complete` tells that these are all sessions that may be known of.
    """

    names: frozenset[str]
    label: Label
    complete: bool


class AuditTrail:
    """Reads the chains of an installation for people; `top` returns the highest label."""

    def __init__(self, store: Store, chains: AnchoredChains, top: Callable[[], Label]) -> None:
        self._store = store
        self._chains = chains
        self._top = top

    async def rows(self, chain: str, reader: Label) -> AsyncIterator[VisibleRow]:
        """Yield the visible rows of a chain, newest first; none for an unknown chain."""
        # Read before the session's label, which then covers everything the session held when it wrote these rows.
        newest, _hash = await self._store.audit.head(chain)
        floor, known, found = PUBLIC, dict[str, Label](), 0
        if chain != OUTSIDE:
            floor = await self._session(chain, known)
            if not floor.flows_to(reader):
                return
        while newest and found < SCANNED:
            after = max(0, newest - _PAGE)
            for record in reversed(await self._page(chain, after, newest)):
                label = floor.join(await self._row(chain, record, known))
                if label.flows_to(reader):
                    found += 1
                    yield VisibleRow(f"{chain}:{record.hash[:_ID]}", _shown(record), label)
                if found == SCANNED:
                    break
            newest = after

    async def find(self, name: str, reader: Label) -> VisibleRow | None:
        """Return the row with a name, None if no visible row has it."""
        async for told in self.rows(name.rpartition(":")[0], reader):
            if told.id == name:
                return told
        return None

    async def chains(self, reader: Label) -> VisibleChains:
        """Return the sessions whose chains may be known of, the `CHECKED` that changed last. Raises StoreError."""
        lost, seen = dict.fromkeys(await self._chains.anchored(), self._top()), list[tuple[float, str, Label]]()
        async for sid, state in self._store.sessions.walk():
            lost.pop(sid, None)
            seen.append((inf if state is None else state.updated_at, sid, self._visibility(state)))
        seen += [(inf, sid, label) for sid, label in lost.items() if sid != OUTSIDE]
        visible = {sid: (at, label) for at, sid, label in seen if label.flows_to(reader)}
        newest = nlargest(CHECKED, visible, key=lambda sid: (visible[sid][0], sid))
        label = join_all(visible[sid][1] for sid in newest)
        return VisibleChains(frozenset(newest), label, complete=len(newest) == len(visible))

    async def _page(self, chain: str, after: int, upto: int) -> list[AuditRecord]:
        """Return the readable records of a chain from `after` up to `upto`, oldest first."""
        try:
            return list(await self._store.audit.records(chain, after=after, limit=upto - after))
        except SchemaError:
            if upto - after == 1:
                return []
        middle = (after + upto) // 2
        return [*await self._page(chain, after, middle), *await self._page(chain, middle, upto)]

    def _visibility(self, state: SessionState | None) -> Label:
        return self._top() if state is None else state.visibility

    async def _session(self, sid: str, known: dict[str, Label]) -> Label:
        """Return the label of everything a session ever held: its rows also record items outside its context."""
        if sid not in known:
            try:
                known[sid] = await self._everything(sid)
            except SchemaError:
                known[sid] = self._top()
        return known[sid]

    async def _everything(self, sid: str) -> Label:
        state = await self._store.sessions.state(sid) if len(sid) <= LONGEST_ID else None
        label, after = self._visibility(state), 0
        while state is not None and (events := await self._store.sessions.events(sid, after=after)):
            label = join_all((event.label for event in events), label)
            after = events[-1].seq
        return label

    async def _row(self, chain: str, record: AuditRecord, known: dict[str, Label]) -> Label:
        """Return the label of a row's own content; for an unknown kind of row it is top."""
        body = record.body
        sessions = [str(body[name]) for name in _SESSIONS if name in body]
        if "destination" in body:
            try:
                there = Address.parse(str(body["destination"]))
            except ValueError:
                return self._top()
            sessions += [there.chat] if there.channel == SESSION else []
        labels = [*self._named(body), *[await self._session(sid, known) for sid in sessions]]
        if chain != OUTSIDE or _is_open(record):
            return join_all(labels)
        if record.kind == _POLICY:
            return join_all(labels, CONFIGURED)
        return join_all(labels) if labels and record.kind in _LABELLED else self._top()

    def _named(self, body: JsonObject) -> list[Label]:
        """Return the labels that a row of ours names."""
        return [self._read(body[name]) for name in _LABELS if name in body]

    def _read(self, written: object) -> Label:
        try:
            return parse(str(written))
        except LabelTextError:
            return self._top()


def _shown(record: AuditRecord) -> AuditRecord:
    """Return a row as people in chats may read it."""
    return replace(record, body={name: fact for name, fact in record.body.items() if name not in _OPERATORS})


def _is_open(record: AuditRecord) -> bool:
    """Say whether a row outside sessions has only content that every admin may be shown in any chat."""
    return record.kind in _OPEN or (record.kind == _REFUSED and record.actor == _ROUTER)
