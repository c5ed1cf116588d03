"""Filing sessions for listings: hints written together with changes of a session, corrected by the sweep.

A session is filed under its principal and its visibility, by the time of its last change. This process remembers where
it filed the session last, so that the old entry can be removed in the same request. An UNTRUSTED session is noted apart
as well, and that note stays when the session rises: UNTRUSTED data may have caused the rise. A wrong hint can hide a
session until the next sweep. It shows nothing to anyone, because a listing reads the session itself.
"""

import base64
import binascii
import hashlib
import hmac
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.core.errors import CursorError, NotFoundError, SchemaError
from bot.sessions.models import SessionPage, SessionQuery, SessionState, Status
from bot.sessions.visibility import counts_still, sees
from bot.store.records import codec
from bot.store.records.codec import raw, text
from bot.store.records.form import check_version
from bot.store.schema import RECENT, labels_key, list_key, past_key, session_keys, turned_key
from bot.store.servers.connection import Command
from bot.store.shared import Place, Shared
from policy.labels import PUBLIC, Label, join_all

_REMEMBERED: Final = 4096


_Shelf = tuple[str, bool]
"""The place of a principal's sessions: their visibility's label, and whether they are archived."""


class Filing:
    """Writes the hints that listings read."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def remember(self, sid: str, place: Place) -> None:
        """Note where a session is filed."""
        self._shared.places[sid] = place
        self._shared.places.move_to_end(sid)
        if len(self._shared.places) > _REMEMBERED:
            self._shared.places.popitem(last=False)

    def file(self, sid: str, place: Place, at: int | None = None) -> list[Command]:
        """Return the commands that file a session at a place, and remove it from where this process filed it last."""
        before = self._shared.places.get(sid)
        self.remember(sid, place)
        moment = self._shared.time.wall_ms() if at is None else at
        commands: list[Command] = [("ZADD", list_key(place[0], str(place[1])), moment, raw(sid))]
        commands.append(("ZADD", RECENT, moment, raw(sid)))
        if before != place:
            commands.append(("SADD", labels_key(place[0]), str(place[1])))
            if place[1].untrusted:
                commands.append(("ZADD", turned_key(place[0], str(place[1])), moment, raw(sid)))
            if before is not None:
                commands.append(("ZREM", list_key(before[0], str(before[1])), raw(sid)))
        return commands

    async def refile(self, sids: Iterable[str]) -> None:
        """File sessions where they belong, and nowhere else, regardless of existing hints."""
        named = ("version", "principal", "status", "updated", "taint", "creation", "inbox_label", "turned")
        fields = codec.stored_fields(*named)
        names = list(dict.fromkeys(sids))
        found = await self._shared.connection.reads(*(("HMGET", session_keys(sid).state, *fields) for sid in names))
        rightly: dict[str, dict[_Shelf, list[tuple[bytes, str]]]] = {}
        gone: dict[str, set[str]] = {}
        commands, recent = list[Command](), list[bytes | str]()
        read = [(sid, *got) for sid, got in zip(names, found, strict=True) if got is not None]
        for sid, version, who, status, moved, *labels, turned in read:
            # A broken record must not hide the others: the server refuses all of them if one time is not a number.
            if version is None or who is None or moved is None or not moved.isdigit():
                continue
            if status == Status.DELETED.value.encode():
                gone.setdefault(text(who), set()).add(sid)
                rightly.setdefault(text(who), {})
                commands.append(("ZREM", RECENT, raw(sid)))
                continue
            recent += (moved, raw(sid))
            try:
                visible = _visible(version, [*labels, turned])
            except SchemaError:
                # A newer program files its own sessions; a broken record must not hide the others.
                continue
            shelf = str(visible), status == Status.ARCHIVED.value.encode()
            rightly.setdefault(text(who), {}).setdefault(shelf, []).append((moved, sid))
            if turned is not None and not shelf[1]:
                commands.append(("SADD", labels_key(text(who)), turned))
                seen = {text(turned), shelf[0]}
                commands += [("ZADD", turned_key(text(who), label), moved, raw(sid)) for label in sorted(seen)]
        if not recent and not gone:
            return
        known = await self._shared.connection.commands(*(("SMEMBERS", labels_key(who)) for who in rightly))
        for (who, places), labels in zip(rightly.items(), known, strict=True):
            commands += _put_right(who, places, {text(label) for label in labels}, gone.get(who, set()))
        if recent:
            commands.append(("ZADD", RECENT, *recent))
        await self._shared.connection.commands(*commands)


def _visible(version: bytes, labels: Sequence[bytes | None]) -> Label:
    """Return the visibility of a session. Raises SchemaError: this program cannot read its record."""
    codec.reading(lambda: check_version(version))
    return codec.reading(lambda: join_all(codec.label(text(label)) for label in labels if label is not None))


def place_of(state: SessionState) -> Place:
    """Return the place of a session in listings."""
    return state.principal, state.visibility


def _put_right(
    who: str, shelves: dict[_Shelf, list[tuple[bytes, str]]], known: set[str], gone: set[str]
) -> list[Command]:
    every = gone.union(sid for filed in shelves.values() for _, sid in filed)
    labels = {label for label, _ in shelves}
    commands: list[Command] = [("SADD", labels_key(who), *labels)] if labels else []
    if gone:
        commands += [("ZREM", turned_key(who, label), *map(raw, sorted(gone))) for label in known]
    for label in known | labels:
        for key, archived in ((list_key(who, label), False), (past_key(who, label), True)):
            filed: Sequence[tuple[bytes, str]] = shelves.get((label, archived), ())
            if filed:
                commands.append(("ZADD", key, *(part for at, sid in filed for part in (at, raw(sid)))))
            if strays := every.difference(sid for _, sid in filed):
                commands.append(("ZREM", key, *map(raw, sorted(strays))))
    return commands


_SEAL: Final = 10


_TURNED: Final = 8
"""How many sessions that were visible while UNTRUSTED are looked up at once; one that counts is enough."""


_TIME: Final = 6


_Hit = tuple[int, bytes]
"""When a session changed last, and its id: the greatest comes first."""


@dataclass(slots=True)
class _Line:
    """One label's sessions, or its archived ones in `past`, newest first, read a stretch at a time.

    The next stretch begins `ties` entries after the first one of the time `top`.
    """

    label: str
    past: bool
    key: str
    top: int | str
    ties: int = 0
    more: bool = True
    hits: deque[_Hit] = field(default_factory=deque[_Hit])

    def command(self, since: int, most: int) -> Command:
        return ("ZREVRANGEBYSCORE", self.key, self.top, since, "WITHSCORES", "LIMIT", self.ties, most)

    def read(self, flat: Sequence[bytes], most: int, after: _Hit | None) -> None:
        found = [(int(score), sid) for sid, score in zip(flat[::2], flat[1::2], strict=True)]
        self.more = len(found) == most
        if found:
            last = found[-1][0]
            self.ties = sum(score == last for score, _ in found) + (self.ties if self.top == last else 0)
            self.top = last
        self.hits.extend(hit for hit in found if after is None or hit < after)


class RedisSessionIndex:
    """Implements the port `SessionIndex`."""

    def __init__(self, shared: Shared, filing: Filing) -> None:
        self._shared = shared
        self._filing = filing

    async def listed(self, asked: SessionQuery) -> SessionPage:
        """Return a page of a principal's sessions that a reader may know of, newest first."""
        after = self._opened(asked)
        lines = await self._lines(asked, after)
        shown: list[tuple[_Hit, SessionState]] = []
        met, strays = set[bytes](), list[tuple[_Line, bytes]]()
        while len(shown) <= asked.limit:
            hits = await self._newest(lines, asked, after, asked.limit + 1 - len(shown))
            if not hits:
                break
            for (line, hit), state in zip(hits, await self._looked_up(hits), strict=True):
                if state is None or not _rightly(state, asked.principal, line):
                    strays.append((line, hit[1]))
                if hit[1] not in met and state is not None and _fits(state, asked):
                    shown.append((hit, state))
                met.add(hit[1])
        await self._put_away(strays)
        page = shown[: asked.limit]
        cursor = self._sealed(asked, page[-1][0]) if len(shown) > asked.limit else ""
        sessions = tuple(state for _, state in page)
        label = join_all(state.visibility for state in sessions)
        if not label.untrusted and not asked.reader.untrusted:
            label = label.join(await self._left_out(asked, lines))
        return SessionPage(sessions, cursor, label)

    async def recent(self, *, after: str = "", limit: int = 50) -> tuple[tuple[str, SessionState | None], ...]:
        """Return the sessions that changed last, newest first, with their records, None for an unreadable record.

        `after` is the id of the last session of the page before. Raises NotFoundError: no session has it.
        """
        first = 0
        if after:
            (place,) = await self._shared.connection.commands(("ZREVRANK", RECENT, raw(after)))
            if place is None:
                raise NotFoundError
            first = place + 1
        while True:
            (found,) = await self._shared.connection.commands(("ZREVRANGE", RECENT, first, first + limit - 1))
            if not found:
                return ()
            sids = list(map(text, found))
            flats = await self._shared.connection.commands(*(("HGETALL", session_keys(sid).state) for sid in sids))
            there = tuple(
                (sid, _state(sid, flat)) for sid, flat in zip(sids, flats, strict=True) if flat and not _tombstone(flat)
            )
            if there:
                return there
            first += limit

    async def _left_out(self, asked: SessionQuery, lines: Sequence[_Line]) -> Label:
        """Return the label of a page's omissions: that of a session that was visible while it was UNTRUSTED.

        Sessions that count no longer are removed from the hints, so each is looked up once.
        """
        left = [label for label in {codec.label(line.label) for line in lines} if label.untrusted]
        while left:
            keys = [turned_key(asked.principal, str(label)) for label in left]
            noted = await self._shared.connection.commands(*(("ZREVRANGE", key, 0, _TURNED - 1) for key in keys))
            for label, key, sids in zip(list(left), keys, noted, strict=True):
                over = await self._over(sids, label) if sids else []
                if len(over) < len(sids):
                    return label
                if over:
                    await self._shared.connection.commands(("ZREM", key, *over))
                else:
                    left.remove(label)
        return PUBLIC

    async def _lines(self, asked: SessionQuery, after: _Hit | None) -> list[_Line]:
        (labels,) = await self._shared.connection.commands(("SMEMBERS", labels_key(asked.principal)))
        top = "+inf" if after is None else after[0]
        known = [text(label) for label in labels if _may_see(label, asked.reader)]
        lines = [_Line(label, False, list_key(asked.principal, label), top) for label in known]  # noqa: FBT003 - a field
        past = known if asked.archived else []
        return lines + [_Line(label, True, past_key(asked.principal, label), top) for label in past]  # noqa: FBT003 - as above

    async def _newest(
        self, lines: Sequence[_Line], asked: SessionQuery, after: _Hit | None, most: int
    ) -> list[tuple[_Line, _Hit]]:
        """Take the next hits off all lines, each with its label; none when all lines are at their end."""
        taken: list[tuple[_Line, _Hit]] = []
        while len(taken) < most:
            empty = [line for line in lines if line.more and not line.hits]
            if empty:
                stretch = asked.limit + 1
                replies = await self._shared.connection.commands(
                    *(line.command(asked.since, stretch) for line in empty)
                )
                for line, flat in zip(empty, replies, strict=True):
                    line.read(flat, stretch, after)
                continue
            line = max((line for line in lines if line.hits), key=lambda line: line.hits[0], default=None)
            if line is None:
                break
            taken.append((line, line.hits.popleft()))
        return taken

    async def _looked_up(self, hits: Sequence[tuple[_Line, _Hit]]) -> list[SessionState | None]:
        sids = [text(sid) for _, (_, sid) in hits]
        found = await self._shared.connection.commands(*(("HGETALL", session_keys(sid).state) for sid in sids))
        return [_state(sid, flat) for sid, flat in zip(sids, found, strict=True)]

    async def _over(self, sids: Sequence[bytes], seen: Label) -> list[bytes]:
        """Return those sessions about which nothing UNTRUSTED chooses any more if they are listed at a label."""
        moment = self._shared.time.wall_ms()
        flats = await self._shared.connection.commands(*(("HGETALL", session_keys(text(sid)).state) for sid in sids))
        states = [_state(text(sid), flat) for sid, flat in zip(sids, flats, strict=True)]
        return [
            sid
            for sid, flat, state in zip(sids, flats, states, strict=True)
            # A session that this program cannot read counts.
            if not flat or (state is not None and not counts_still(state, seen, moment))
        ]

    async def _put_away(self, strays: Sequence[tuple[_Line, bytes]]) -> None:
        """Remove hits from places where they do not belong, and file their sessions in the right ones."""
        if strays:
            await self._shared.connection.commands(*(("ZREM", line.key, sid) for line, sid in strays))
            await self._filing.refile(text(sid) for _, sid in strays)

    # Cursors ----------------------------------------------------------------------------------------------

    def _sealed(self, asked: SessionQuery, hit: _Hit) -> str:
        body = hit[0].to_bytes(_TIME) + hit[1]
        return base64.urlsafe_b64encode(self._seal(asked, body) + body).rstrip(b"=").decode("ascii")

    def _opened(self, asked: SessionQuery) -> _Hit | None:
        """Return the place a cursor stands for, None without one.

        Raises CursorError: the cursor was not given to this principal at this level.
        """
        if not asked.cursor:
            return None
        try:
            whole = base64.b64decode(asked.cursor + "=" * (-len(asked.cursor) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise CursorError from None
        seal, body = whole[:_SEAL], whole[_SEAL:]
        if not hmac.compare_digest(seal, self._seal(asked, body)):
            raise CursorError
        return int.from_bytes(body[:_TIME]), body[_TIME:]

    def _seal(self, asked: SessionQuery, body: bytes) -> bytes:
        bound = b"\0".join((b"lockgate cursor", raw(asked.principal), str(asked.reader).encode("ascii"), body))
        return hmac.digest(self._shared.audit_key, bound, hashlib.sha256)[:_SEAL]


def _state(sid: str, flat: Sequence[bytes]) -> SessionState | None:
    """Read a session's record; None if there is none any more, or this program cannot read and so cannot show it."""
    try:
        state = codec.reading(lambda: codec.state(sid, flat)) if flat else None
    except SchemaError:
        return None
    return None if state is None or state.status is Status.DELETED else state


def _tombstone(flat: Sequence[bytes]) -> bool:
    """Say whether a session was deleted, by its status alone."""
    (status,) = codec.stored_fields("status")
    return codec.pairs(flat).get(status) == Status.DELETED.value.encode()


def _may_see(label: bytes, reader: Label) -> bool:
    """Say whether a reader may see sessions filed under a label; an invalid label is visible to no reader."""
    try:
        return codec.reading(lambda: codec.label(text(label))).flows_to(reader)
    except SchemaError:
        return False


def _rightly(state: SessionState, principal: str, line: _Line) -> bool:
    """Say whether a session belongs where it was found."""
    archived = state.status is Status.ARCHIVED
    return (state.principal, str(state.visibility), archived) == (principal, line.label, line.past)


def _fits(state: SessionState, asked: SessionQuery) -> bool:
    """Say whether a session is one of those asked for, by its own record."""
    return (
        sees(state, asked.principal, asked.reader)
        and (asked.archived or state.status is not Status.ARCHIVED)
        and (asked.kind is None or state.kind is asked.kind)
        and (asked.status is None or state.status is asked.status)
        and state.updated_at >= asked.since
    )
