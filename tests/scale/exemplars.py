"""Sessions made by one person's real messages and commands, and what the store keeps for each: the originals of copies.

An original is a kind of conversation. What one person has beside conversations (how they were let in, a memory, a
reminder, what they used today) is an original too, copied once for each person.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, cast

from bot.audit.chain import canonical, genesis
from bot.sessions.audit import AuditRecord
from bot.store.records import codec
from bot.store.schema import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, RECENT, session_keys
from tests.scale.people import Installation, person, place, thread

ORIGINAL: Final = person(0)
"""Who made the originals."""

Command = tuple[bytes, ...]


class Kind(StrEnum):
    """The kinds of conversations."""

    PLAIN = "plain"
    TALK = "talk"
    READ = "read"
    TITLED = "titled"
    ARCHIVED = "archived"
    FRESH = "fresh"
    WAITING = "waiting"
    DEAD = "dead"


SHARES: Final[Mapping[Kind, int]] = MappingProxyType(
    {
        Kind.PLAIN: 560,
        Kind.TALK: 300,
        Kind.READ: 60,
        Kind.TITLED: 20,
        Kind.ARCHIVED: 30,
        Kind.FRESH: 26,
        Kind.WAITING: 2,
        Kind.DEAD: 2,
    }
)
"""How many of a thousand conversations are of a kind. All but `fresh` ones rest for more than a day."""

TURNS: Final = 4
"""Turns of a talk; each other conversation has one."""

_TEXTS: Final[Mapping[Kind, tuple[str, ...]]] = MappingProxyType(
    {
        Kind.PLAIN: ("When does the ferry leave?",),
        Kind.TALK: tuple(f"When does ferry number {turn} leave, and from where?" for turn in range(TURNS)),
        Kind.READ: ('!read_file {"path": "internal/handbook.md"}',),
        Kind.TITLED: ("When does the ferry leave?", "/rename The ferry of Monday"),
        Kind.ARCHIVED: ("When does the ferry leave?", "/archive"),
        Kind.FRESH: ("When does the ferry leave?",),
        Kind.WAITING: ('!write_file {"path": "public/ferry.md", "text": "It leaves at nine."}',),
        Kind.DEAD: ("When does the ferry leave?",),
    }
)

_ALONE: Final = ("/memory learn I take the ferry at nine.", "/remind in 300 days The ferry leaves.")
"""What the person says beside all conversations."""

_PASSING: Final = (
    *(b"lg:right:", b"lg:sweep:", b"lg:{pace:", b"lg:{count:", b"lg:offer:", b"lg:ready", b"lg:answered:"),
    b"lg:{rate:person",
)
"""The beginnings of keys that are gone within the hour. What they hold depends on the moment that an act falls into."""

_FILED: Final = (b"lg:list:", b"lg:past:", b"lg:turned:", RECENT.encode())
"""The beginnings of keys that sort sessions by the time of their last change."""

_AGED: Final = (b"}:inputs", b"}:outbox")
"""The ends of keys that vanish a day after the last turn."""


async def made(running: Installation, who: str = ORIGINAL, first: int = 0) -> dict[Kind, str]:
    """Let a person in, and have them hold a conversation of each kind, in threads from `first`; return their ids."""
    await running.let_in(who)
    for text in _ALONE:
        await running.say(who, "", text)
    found = dict[Kind, str]()
    for number, (kind, texts) in enumerate(_TEXTS.items(), first):
        where = thread(number)
        if kind is Kind.DEAD:
            running.ears.gone.add(where)
        for text in texts:
            await running.say(who, where, text)
        found[kind] = running.app.session_id(place(who, where))
    # Hints of work that is done are corrected by then.
    await running.app.store.wake.sweep(running.app.outbox.channels)
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an audit chain: as stored with its hash, and all that its hash covers after its number."""

    stored: bytes
    hash: bytes
    covered: bytes


@dataclass(frozen=True, slots=True)
class Original:
    """What is copied as one.

    Args:
        commands: They write it, all but its audit rows.
        rows: Its audit rows: all of a session's chain, or some of the chain `audit`.
        names: The names to replace in both: of a session its id, person and thread; of a person theirs, and of their
            schedules.
        moment: The decimal time of its last change, in milliseconds, by which it is sorted.
    """

    commands: tuple[Command, ...]
    rows: tuple[Row, ...]
    names: tuple[bytes, ...]
    moment: bytes = b""


def read(
    client: Any,  # noqa: ANN401 - the library's client
    sids: Mapping[Kind, str],
    who: str = ORIGINAL,
    first: int = 0,
) -> tuple[dict[Kind, Original], Original]:
    """Return what `made` left in the store: the person's conversations, and what they have beside these."""
    ids = _ids_beside(client, who)
    beside = [Command(part) for part in _parts(client)]
    tags = {sid.encode(): kind for kind, sid in sids.items()}
    found = {
        kind: _original(client, kind, (sid, who, thread(number)), beside)
        for number, (kind, sid) in enumerate(sids.items(), first)
    }
    theirs = (who.encode(), *ids)
    own = [part for part in beside if _names(part, theirs) and not _names(part, tags)]
    rows = [row for row in _rows(client, AUDIT) if _names((row.covered,), theirs)]
    return found, Original(tuple(own), tuple(rows), theirs)


def _ids_beside(client: Any, who: str) -> tuple[bytes, ...]:  # noqa: ANN401 - as above
    return tuple(sorted(client.smembers(f"lg:{{audit}}:schedules-of:{who}")))


def _original(client: Any, kind: Kind, names: tuple[str, ...], beside: Sequence[Command]) -> Original:  # noqa: ANN401 - as above
    sid = names[0]
    keys = session_keys(sid)
    kept = sorted(key for key in client.scan_iter(f"{keys.prefix}*", count=1000) if b":op:" not in key)
    if kind not in {Kind.FRESH, Kind.WAITING, Kind.DEAD}:
        kept = [key for key in kept if not key.endswith(_AGED)]
    (updated,) = codec.stored_fields("updated")
    moment: bytes = client.hget(keys.state, updated)
    own = [part for key in kept if key != keys.audit.encode() for part in _written(client, key)]
    own += [_sorted_by(part, moment) for part in beside if _names(part, (sid.encode(),))]
    return Original(tuple(own), tuple(_rows(client, sid)), tuple(name.encode() for name in names), moment)


def _sorted_by(part: Command, moment: bytes) -> Command:
    """Return a command that files a session with the moment in the place of its score."""
    if not part[1].startswith(_FILED):
        return part
    return (*part[:2], moment, part[3])


def _names(part: Sequence[bytes], names: "Sequence[bytes] | Mapping[bytes, object]") -> bool:
    return any(name in word for word in part for name in names)


def _parts(client: Any) -> Iterator[Command]:  # noqa: ANN401 - as above
    """Yield a command for each entry of the keys of no session, without the audit chain."""
    chain = {AUDIT_CHAIN.encode(), AUDIT_HEAD.encode()}
    for key in sorted(client.scan_iter("lg:*", count=1000)):
        if key in chain or b":op:" in key or key.startswith(_PASSING) or client.exists(_state_beside(key)):
            continue
        yield from _written(client, key, alone=True)


def _state_beside(key: bytes) -> bytes:
    return key.partition(b"}")[0] + b"}:state"


def _written(client: Any, key: bytes, *, alone: bool = False) -> Iterator[Command]:  # noqa: ANN401 - as above
    """Yield the commands that write a key, with its expiries; one for each entry if it is to be `alone`."""
    pairs: list[Command]
    match client.type(key):
        case b"hash":
            pairs = list(client.hgetall(key).items())
            yield from _grouped(b"HSET", key, pairs, alone=alone)
            yield from _expiring(client, key, [name for name, _ in pairs])
        case b"list":
            yield (b"RPUSH", key, *client.lrange(key, 0, -1))
        case b"set":
            yield from _grouped(b"SADD", key, [(one,) for one in sorted(client.smembers(key))], alone=alone)
        case b"zset":
            scored = client.zrange(key, 0, -1, withscores=True)
            pairs = [(b"%d" % int(score), one) for one, score in scored]
            yield from _grouped(b"ZADD", key, pairs, alone=alone)
        case b"stream":
            for name, fields in client.xrange(key):
                yield (b"XADD", key, name, *(word for pair in fields.items() for word in pair))
        case b"string":
            yield (b"SET", key, client.get(key))
        case other:
            raise RuntimeError(f"a key of another type, {other!r}")
    if (until := client.pexpiretime(key)) > 0:
        yield (b"PEXPIREAT", key, b"%d" % until)


def _grouped(command: bytes, key: bytes, entries: Sequence[Command], *, alone: bool) -> Iterator[Command]:
    if alone:
        yield from ((command, key, *entry) for entry in entries)
    elif entries:
        yield (command, key, *(word for entry in entries for word in entry))


def _expiring(client: Any, key: bytes, names: Sequence[bytes]) -> Iterator[Command]:  # noqa: ANN401 - as above
    if not names:
        return
    ends = cast("Sequence[int]", client.execute_command("HPEXPIRETIME", key, "FIELDS", len(names), *names))
    for name, until in zip(names, ends, strict=True):
        if until > 0:
            yield (b"HPEXPIREAT", key, b"%d" % until, b"FIELDS", b"1", name)


def _rows(client: Any, chain: str) -> Iterator[Row]:  # noqa: ANN401 - as above
    """Yield the rows of a chain as they are copied."""
    key = AUDIT_CHAIN if chain == AUDIT else session_keys(chain).audit
    stored = client.lrange(key, 0, -1)
    for packed, record in zip(stored, codec.audit_records(stored, genesis(chain), 0), strict=True):
        yield Row(packed, record.hash.encode(), _covered(record))


def _covered(record: AuditRecord) -> bytes:
    return canonical(record).removeprefix(b"[%d" % record.n)
