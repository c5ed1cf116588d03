"""Filing sessions for listings: hints written along with what changes a session, put right by the sweep.

A session is filed under its principal and its visibility, by the time of its last change. Where this process filed it
last is remembered, so that it can be taken from there in the same exchange. An UNTRUSTED session is noted apart as
well, and is not taken from there when it rises: UNTRUSTED data may have had it rise. A hint that is wrong can hide a
session until the sweep comes by; it shows nothing to anybody, because a listing looks at the session itself.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from bot.core.errors import SchemaError
from bot.sessions.models import SessionState, Status
from bot.store import wire
from bot.store.base import Part, Place
from bot.store.keys import RECENT, labels_key, list_key, past_key, session_keys, turned_key
from bot.store.link import Command
from bot.store.wire import raw, text
from policy.labels import Label, join_all

_REMEMBERED: Final = 4096

_Shelf = tuple[str, bool]
"""Where a principal's sessions are: their visibility's label, and whether they are archived."""


class Filing(Part):
    """Writes the hints that listings read."""

    def _remember(self, sid: str, place: Place) -> None:
        self._places[sid] = place
        self._places.move_to_end(sid)
        if len(self._places) > _REMEMBERED:
            self._places.popitem(last=False)

    def _file(self, sid: str, place: Place, at: int | None = None) -> list[Command]:
        """Return the commands that file a session at a place, and take it from where this process filed it last."""
        before = self._places.get(sid)
        self._remember(sid, place)
        moment = self._clock.wall_ms() + self._ahead if at is None else at
        commands: list[Command] = [("ZADD", list_key(place[0], str(place[1])), moment, raw(sid))]
        commands.append(("ZADD", RECENT, moment, raw(sid)))
        if before != place:
            commands.append(("SADD", labels_key(place[0]), str(place[1])))
            if place[1].untrusted:
                commands.append(("ZADD", turned_key(place[0], str(place[1])), moment, raw(sid)))
            if before is not None:
                commands.append(("ZREM", list_key(before[0], str(before[1])), raw(sid)))
        return commands

    async def _refile(self, sids: Iterable[str]) -> None:
        """File sessions where they belong, and nowhere else, whatever the hints say."""
        fields = ("v", "who", "status", "moved", "taint", "made", "typed", "turned")
        names = list(dict.fromkeys(sids))
        found = await self._link.commands(*(("HMGET", session_keys(sid).state, *fields) for sid in names))
        rightly: dict[str, dict[_Shelf, list[tuple[bytes, str]]]] = {}
        commands, recent = list[Command](), list[bytes | str]()
        for sid, (version, who, status, moved, *labels, turned) in zip(names, found, strict=True):
            if version is None or who is None or moved is None:
                continue
            recent += (moved, raw(sid))
            try:
                visible = _visible(version, [*labels, turned])
            except SchemaError:
                # One of a newer program is that program's to file; a broken one must not hide the others.
                continue
            shelf = str(visible), status == Status.ARCHIVED.value.encode()
            rightly.setdefault(text(who), {}).setdefault(shelf, []).append((moved, sid))
            if turned is not None and not shelf[1]:
                commands.append(("SADD", labels_key(text(who)), turned))
                seen = {text(turned), shelf[0]}
                commands += [("ZADD", turned_key(text(who), label), moved, raw(sid)) for label in sorted(seen)]
        if not recent:
            return
        known = await self._link.commands(*(("SMEMBERS", labels_key(who)) for who in rightly))
        for (who, places), labels in zip(rightly.items(), known, strict=True):
            commands += _put_right(who, places, {text(label) for label in labels})
        await self._link.commands(*commands, ("ZADD", RECENT, *recent))


def _visible(version: bytes, labels: Sequence[bytes | None]) -> Label:
    """Return whom a session may be shown to. Raises SchemaError: this program cannot read its record."""
    wire.reading(lambda: wire.check_version(version))
    return wire.reading(lambda: join_all(wire.label(label) for label in labels if label is not None))


def place_of(state: SessionState) -> Place:
    """Return where a session belongs."""
    return state.principal, state.visibility


def _put_right(who: str, shelves: dict[_Shelf, list[tuple[bytes, str]]], known: set[str]) -> list[Command]:
    every = {sid for filed in shelves.values() for _, sid in filed}
    labels = {label for label, _ in shelves}
    commands: list[Command] = [("SADD", labels_key(who), *labels)]
    for label in known | labels:
        for key, archived in ((list_key(who, label), False), (past_key(who, label), True)):
            filed: Sequence[tuple[bytes, str]] = shelves.get((label, archived), ())
            if filed:
                commands.append(("ZADD", key, *(part for at, sid in filed for part in (at, raw(sid)))))
            if strays := every.difference(sid for _, sid in filed):
                commands.append(("ZREM", key, *map(raw, sorted(strays))))
    return commands
