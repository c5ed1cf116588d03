"""A copy equals what real messages made, key by key; it holds before the audit, and its conversation goes on."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs] - it has none
import pytest

from bot.audit.chain import Intact
from bot.store.schema import session_keys, uses_key
from tests.folders import quick_folder
from tests.scale.copies import SESSIONS_EACH, Copier, Keys, kind_of, renamed
from tests.scale.exemplars import SHARES, Command, Kind, Original, made, read
from tests.scale.grown_store import GrownStore
from tests.scale.people import installation, person

pytestmark = pytest.mark.anyio

OTHER = person(9_999_999)
THEIR_FIRST = 9_000_000
COPIED = range(2 * SESSIONS_EACH)
TALKED = range(COPIED.stop, COPIED.stop + SESSIONS_EACH)
"""Those that are talked in."""

LONG_MS = 60_000
_UNPACK = cast("Any", msgpack).unpackb
ID = re.compile(r"[\w/.:@+=-]{6,}")


@dataclass
class World:
    """Two people who held the same conversations, and copies of those of the first."""

    grown: GrownStore
    keys: Keys
    copied: tuple[Mapping[Kind, Original], Original]
    organic: tuple[Mapping[Kind, Original], Original]


@pytest.fixture(scope="module")
async def world(anyio_backend: str) -> AsyncGenerator[World]:  # noqa: ARG001 - a fixture of the module needs it
    with quick_folder() as folder:
        grown = await asyncio.to_thread(GrownStore.at, folder)
        async with installation(grown.folder) as running:
            sids = await made(running)
            theirs = await made(running, OTHER, THEIR_FIRST)
        async with grown.open() as client:

            def filled() -> World:
                # The window of a rate may end between two messages of one of them.
                client.hset(uses_key(f"person/{OTHER}"), "p-x/1", 1)
                copied, organic = read(client, sids), read(client, theirs, OTHER, THEIR_FIRST)
                keys = grown.keys()
                Copier(copied, keys, grown.data / "anchors").write(grown.socket, range(TALKED.stop))
                return World(grown, keys, copied, organic)

            world = await asyncio.to_thread(filled)
        yield world


@pytest.mark.parametrize("kind", Kind)
async def test_a_copy_has_each_key_and_field_of_a_real_session(world: World, kind: Kind) -> None:
    one, other = world.copied[0][kind], world.organic[0][kind]
    _same(one, other)


async def test_a_person_has_beside_conversations_what_a_real_one_has(world: World) -> None:
    _same(world.copied[1], world.organic[1])


async def test_a_copy_has_the_keys_of_its_original_which_take_as_much_memory(world: World) -> None:
    async with world.grown.open() as client:
        for number in COPIED:
            await asyncio.to_thread(_as_the_original, client, world, number)


def _as_the_original(client: Any, world: World, number: int) -> None:  # noqa: ANN401 - the library's client
    keys, of = session_keys(world.keys.sid(number)), world.copied[0][kind_of(number)]
    names = tuple(name.encode() for name in (world.keys.sid(number), *Keys.names(number)))
    prefix, like = keys.prefix.encode(), session_keys(of.names[0].decode())
    written = {renamed(command[1], of.names, names) for command in of.commands} | {keys.audit.encode()}
    assert set(client.scan_iter(f"{keys.prefix}*", count=1000)) == {key for key in written if key.startswith(prefix)}
    for key, alike in ((keys.state, like.state), (keys.log, like.log), (keys.audit, like.audit)):
        assert client.object("encoding", key) == client.object("encoding", alike)
        assert client.memory_usage(key, samples=0) == pytest.approx(client.memory_usage(alike, samples=0), rel=0.05)


async def test_copies_hold_and_go_on_and_the_sweep_finds_nothing_wrong(world: World) -> None:
    assert {kind_of(number) for number in range(sum(SHARES.values()))} == set(Kind)
    async with world.grown.open() as client:
        before = await asyncio.to_thread(_hints, client, world)
    async with installation(world.grown.folder, serve=False) as running:
        app = running.app
        await app.store.wake.sweep(("console",))
        assert isinstance(await app.chains.verify("audit"), Intact)
        for number in COPIED:
            sid = world.keys.sid(number)
            assert isinstance(await app.chains.verify(sid), Intact)
            assert (await app.chains.anchored())[sid] == await app.store.audit.head(sid)
            state = await app.store.sessions.state(sid)
            assert state is not None
            assert (state.principal, len(await app.store.sessions.events(sid))) == (Keys.names(number)[0], state.seq)
        async with world.grown.open() as client:
            assert await asyncio.to_thread(_hints, client, world) == before
    async with installation(world.grown.folder) as running:
        rested = next(number for number in TALKED if kind_of(number) is Kind.TALK)
        assert "You said: and back?" in await running.say(*Keys.names(rested), "and back?")
        assert "ferry" in await running.say(person(3), "", "/memory list")
        assert "The ferry leaves" in await running.say(person(3), "", "/remind list")


def _hints(client: Any, world: World) -> list[object]:  # noqa: ANN401 - the library's client
    """Return the entries about copies in the hints that the sweep corrects."""
    sids = {world.keys.sid(number).encode() for number in COPIED}
    sets = [client.smembers(key) for key in ("lg:open", "lg:dead")]
    filed = [f"lg:{kind}:{{{person(1)}}}:PUBLIC" for kind in ("list", "past", "turned")]
    sorts = [dict(client.zrange(key, 0, -1, withscores=True)) for key in ("lg:recent", *filed)]
    named = [{(sid, moment) for sid, moment in found.items() if sid in sids} for found in sorts]
    return [*(found & sids for found in sets), *named]


def _same(one: Original, other: Original) -> None:
    """Hold a copy of one, made under the names of the other, against the other."""
    copy = [tuple(renamed(word, one.names, other.names) for word in command) for command in one.commands]
    mine, theirs = sorted(copy, key=_place), sorted(other.commands, key=_place)
    assert [_place(command) for command in mine] == [_place(command) for command in theirs]
    assert len(one.rows) == len(other.rows)
    signed = [renamed(row.stored, one.names, other.names) for row in one.rows]
    for this, that in [*_values(mine, theirs), *zip(signed, (row.stored for row in other.rows), strict=True)]:
        assert _alike(_opened(this), _opened(that)), (this, that)


def _place(command: Command) -> tuple[bytes, ...]:
    """Return the name, the key and, where these are not ids, the fields that a command writes."""
    name, key, *words = command
    if name == b"HSET" and key.endswith(b"}:state"):
        return (name, key, *sorted(words[::2]))
    return (name, key, b"%d" % len(words))


def _values(mine: Sequence[Command], theirs: Sequence[Command]) -> Iterator[tuple[bytes, bytes]]:
    for this, that in zip(mine, theirs, strict=True):
        if this[0] == b"HSET" and this[1].endswith(b"}:state"):
            fields = [dict(zip(words[::2], words[1::2], strict=True)) for words in (this[2:], that[2:])]
            yield from ((fields[0][name], fields[1][name]) for name in fields[0])
        else:
            yield from zip(this[2:], that[2:], strict=True)


def _opened(stored: bytes) -> object:
    """Return what bytes say: a map, a list, a number or a text."""
    try:
        found: object = _UNPACK(stored)
    except ValueError:
        found = None
    # A text may also be read as a number.
    return cast("object", found) if isinstance(found, dict | list) else stored.decode()


def _alike(one: object, other: object) -> bool:
    """Say whether two values differ in nothing but moments and ids."""
    match one, other:
        case dict(), dict():
            mine, theirs = cast("dict[str, object]", one), cast("dict[str, object]", other)
            return mine.keys() == theirs.keys() and all(_alike(mine[name], theirs[name]) for name in mine)
        case list(), list():
            these, those = cast("list[object]", one), cast("list[object]", other)
            return len(these) == len(those) and all(map(_alike, these, those))
        case bool(), bool():
            return one == other
        case int(), int():
            # A moment, or how long something took.
            return len(str(one)) == len(str(other)) or max(one, other) < LONG_MS
        case str(), str():
            return one == other or _alike_texts(one, other)
        case _:
            return one == other


def _alike_texts(one: str, other: str) -> bool:
    try:
        read_one, read_other = json.loads(one), json.loads(other)
    except ValueError:
        parts = ID.findall(one), ID.findall(other)
        return ID.sub("", one) == ID.sub("", other) and list(map(len, parts[0])) == list(map(len, parts[1]))
    return _alike(read_one, read_other)
