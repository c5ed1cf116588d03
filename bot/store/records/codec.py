"""Stored bytes to frozen values and back: the one place that knows the content of each record.

`form` has the form of a record, `kinds` its fields; here they become the values of `bot.sessions`. Text is any Python
text: UTF-8 with lone surrogates passed through, so it comes back as it went. Bodies are JSON in the same encoding; one
over `INLINE` bytes is stored under a key of its own and `@<id>` stands in its place. No I/O here. A record of another
version, or one that cannot be read, raises SchemaError.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, cast

from bot.core.errors import UNREADABLE, SchemaError
from bot.core.json_values import JsonObject
from bot.sessions import refs
from bot.sessions.audit import AuditRecord
from bot.sessions.background.delegation import Arrival, FieldKind, Lineage, ResultField
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.inbox import InboxItem, ItemOutcome, ItemStatus, Metadata, QueueMode
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.log.event_types import YieldReason
from bot.sessions.log.events import Event, NewEvent, Visibility
from bot.sessions.log.serialization import event_from, event_json, message_from
from bot.sessions.messages import Endorsed, SessionMessage
from bot.sessions.models import LastTurn, SessionState, Status, Title, Turn
from bot.sessions.usage import Usage
from bot.store.records import form, kinds, run_parts
from bot.store.records.fields import RecordType
from bot.store.records.form import Values
from bot.store.records.names import NAMES
from policy.errors import LabelTextError
from policy.labels import PUBLIC, Label, parse

INLINE: Final = 32 * 1024
"""The longest body, in bytes, that stays in its record."""

Fields: TypeAlias = dict[str, Any]
"""Fields of a record by name, as `form.unpack` gives them."""


_T = TypeVar("_T")


def raw(text: str) -> bytes:
    """Encode any text."""
    return text.encode("utf-8", "surrogatepass")


def text(stored: bytes) -> str:
    """Decode the bytes that `raw` encoded."""
    return stored.decode("utf-8", "surrogatepass")


_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_read_json: Final = cast("Callable[[str], JsonObject]", json.JSONDecoder().decode)


_SORTED: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def dump(value: object, *, sort: bool = False) -> str:
    """Write a JSON value; with `sort`, equal objects give equal texts."""
    return (_SORTED if sort else _PLAIN).encode(value)


def digest(body: str) -> str:
    """Return a digest that tells whether two bodies are the same."""
    return hashlib.sha256(raw(body)).hexdigest()[:32]


@dataclass(slots=True)
class Bodies:
    """Collects the large bodies of one script call: their ids in order, with their bytes."""

    large: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def put(self, body: str) -> str:
        """Return the body or the reference that stands for it in its record."""
        # Most are so short that their bytes need not be counted.
        if len(body) <= INLINE // 4:
            return body
        written = raw(body)
        if len(written) <= INLINE:
            return body
        ref = hashlib.sha256(written).hexdigest()[:32]
        self.large[ref] = written
        return f"@{ref}"


Fetched: TypeAlias = Mapping[str, str]
"""Large bodies by id, as read back."""


def referred(bodies: Iterable[str]) -> list[str]:
    """Return the ids of the large bodies that these references stand for."""
    return [body[1:] for body in bodies if body[:1] == "@"]


def whole(body: str, fetched: Fetched) -> str:
    """Return a body as it was put, from its reference.

    Raises SchemaError: it is not there.
    """
    if body[:1] != "@":
        return body
    found = fetched.get(body[1:])
    if found is None:
        raise SchemaError(f"the store lost the body `{body[1:]}`", next_step="restore the store from a backup")
    return found


@lru_cache(maxsize=4096)
def label(stored: str) -> Label:
    """Read a label's text form."""
    return parse(stored)


def clock_ms(reply: list[bytes]) -> int:
    """Return the answer of `TIME` in the form of the scripts, in milliseconds."""
    seconds, micros = reply
    return int(seconds) * 1000 + int(micros) // 1000


def reading(read: Callable[[], _T]) -> _T:
    """Run a decoder; a record that it cannot read is unknown to this program.

    Raises SchemaError: for any malformed record.
    """
    try:
        return read()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, LabelTextError) as error:
        raise unreadable() from error


def unreadable() -> SchemaError:
    """Return the error for a record that this program cannot read."""
    return SchemaError("the store holds records that this program cannot read", next_step=UNREADABLE)


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Read a flat reply of fields and values."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


# State ----------------------------------------------------------------------------------------------------

_STORED: Final = MappingProxyType({name: stored.encode() for name, stored in NAMES.items()})


def stored_fields(*names: str) -> list[bytes]:
    """Return the stored names of fields of a session's record."""
    return [_STORED[name] for name in names]


def state(sid: str, flat: Sequence[bytes]) -> SessionState:
    """Read a session's record from its hash."""
    return state_of(sid, pairs(flat))


_PARTS: Final = (
    (kinds.TURN, "turn"),
    (kinds.LAST_TURN, "last_turn"),
    (kinds.LINEAGE, "lineage"),
    (kinds.USAGE, "usage"),
)
"""Records in fields of a session's record, which most sessions have."""


def state_of(sid: str, got: Mapping[bytes, bytes]) -> SessionState:
    """Read a session's record from the fields of its hash."""
    form.check_version(got[_STORED["version"]])

    # Every claim reads one, of which most fields are absent.
    def number(name: str) -> int:
        found = got.get(_STORED[name])
        return int(found) if found else 0

    def word(name: str) -> str:
        found = got.get(_STORED[name])
        return text(found) if found else ""

    def labelled(name: str) -> Label:
        return label(word(name)) if _STORED[name] in got else PUBLIC

    turn, last, lineage, used = (_part(got, kind, name) for kind, name in _PARTS)
    own = SessionState(
        sid=sid,
        generation=number("generation"),
        generation_seq=number("generation_seq"),
        seq=number("seq"),
        status=Status(word("status")),
        taint=labelled("taint"),
        creation=labelled("creation"),
        inbox_label=labelled("inbox_label"),
        home=text(got[_STORED["home"]]),
        principal=text(got[_STORED["principal"]]),
        created_at=number("created"),
        updated_at=number("updated"),
        waiting_items=number("waiting"),
        turn=None if turn is None else _turn(turn),
        last_turn=None if last is None else _last_turn(last),
        usage=Usage() if used is None else _usage(used),
        undelivered=number("undelivered"),
        stopping=_STORED["stop"] in got,
        lineage=None if lineage is None else _lineage(lineage),
        ended_at=number("ended"),
        given_title=_title(_part(got, kinds.TITLE, "title")),
        model=word("model"),
        memory=MemoryUse(word("memory")) if _STORED["memory"] in got else None,
        mode=mode(word("queue_mode")),
        turned=labelled("turned") if _STORED["turned"] in got else None,
        unsaid=_STORED["dead_until"] in got,
        context_seq=max(number("context_seq"), number("generation_seq")),
        turns_alone=number("turns_alone"),
        agent=word("agent"),
        metadata=_metadata(_part(got, kinds.METADATA, "metadata")),
    )
    return run_parts.with_run(own, got.get(_STORED["charter"]), got.get(_STORED["progress"]))


def _title(got: Fields | None) -> Title | None:
    return None if got is None else Title(got["text"], label(got["label"]))


def _metadata(got: Fields | None) -> Metadata | None:
    return None if got is None else Metadata(got["text"], label(got["label"]))


def _part(got: Mapping[bytes, bytes], kind: RecordType, name: str) -> Fields | None:
    found = got.get(_STORED[name])
    return None if found is None else form.unpack(kind, found)


def mode(stored: str) -> QueueMode:
    """Read how a session takes inputs while a turn runs."""
    return QueueMode(stored) if stored else QueueMode.COLLECT


def title(value: Title) -> Values:
    """Write a title."""
    return {"text": value.text, "label": str(value.label)}


def metadata(value: Metadata) -> Values:
    """Write the metadata that a program keeps with its session."""
    return {"text": value.text, "label": str(value.label)}


def head(n: bytes | int | None, digest: bytes | None) -> tuple[int, str]:
    """Read the head of an audit chain from its two fields."""
    return int(n or 0), text(digest or b"")


def audit_head(got: Mapping[bytes, bytes]) -> tuple[int, str]:
    """Read the head of its audit chain out of the fields of a session's record."""
    return head(got.get(_STORED["audit_seq"]), got.get(_STORED["audit_hash"]))


def fence(got: Mapping[bytes, bytes]) -> int:
    """Read the fence out of the fields of a session's record."""
    return int(got.get(_STORED["fence"]) or 0)


def truncated(got: Mapping[bytes, bytes]) -> int:
    """Read the fence at the last loss that was noted out of the fields of a session's record, 0 for none."""
    return int(got.get(_STORED["truncated"]) or 0)


def turn(value: Turn) -> Values:
    """Write an open turn."""
    return {
        "id": value.id,
        "position": value.position,
        "dedupe": value.dedupe,
        "sender": value.sender,
        "started_at": value.started_at,
        "attempt": value.attempt,
        "suspended": value.suspended,
        "hops": value.hops,
        "joined": listing(value.joined),
        "active": value.active,
        "handed": value.handed,
        **usage(value.usage),
    }


def _turn(got: Fields) -> Turn:
    return Turn(
        id=got["id"],
        position=got["position"],
        dedupe=got["dedupe"],
        sender=got["sender"],
        started_at=got["started_at"],
        attempt=got["attempt"],
        suspended=got["suspended"],
        usage=_usage(got),
        hops=got["hops"],
        joined=tuple(cast("list[int]", listed(got["joined"]))),
        active=got["active"],
        handed=got["handed"],
    )


_KIN: Final = (
    *("parent", "generation", "run", "depth", "deadline", "title", "deliver_to", "meant"),
    *("asked_at", "root", "root_generation", "beyond"),
)
"""The parts of a lineage that are written as they are."""


def lineage(value: Lineage) -> Values:
    """Write the lineage of a background session."""
    returns = result_fields(value.returns)
    told = {**{name: getattr(value, name) for name in _KIN}, "charged": value.endorsed, "returns": returns}
    return {**told, "known": str(value.known)}


def _lineage(got: Fields) -> Lineage:
    returns, known = read_fields(got["returns"]), label(got["known"])
    return Lineage(**{name: got[name] for name in _KIN}, endorsed=got["charged"], returns=returns, known=known)


def result_fields(fields: Iterable[ResultField]) -> str:
    """Write the declared fields of a result as one text."""
    return listing([[one.name, one.kind.value, list(one.members), one.least, one.most, one.step] for one in fields])


def read_fields(stored: str) -> tuple[ResultField, ...]:
    """Read declared fields that were written as one text."""
    return tuple(
        [
            ResultField(name, FieldKind(kind), tuple(members), *within)
            for name, kind, members, *within in cast("list[Any]", listed(stored))
        ]
    )


def last_turn(value: LastTurn) -> Values:
    """Write how the last turn ended."""
    return {
        "id": value.id,
        "reason": "" if value.reason is YieldReason.COMPLETED else value.reason.value,
        "seq": value.seq,
        "result_seq": value.result_seq,
        "error": value.error,
    }


def _last_turn(got: Fields) -> LastTurn:
    return LastTurn(
        id=got["id"],
        reason=YieldReason(got["reason"]) if got["reason"] else YieldReason.COMPLETED,
        seq=got["seq"],
        result_seq=got["result_seq"],
        error=got["error"],
    )


def usage(value: Usage) -> Values:
    """Write the use of models; unused fields are left out."""
    counts = {"requests": value.requests, "input_tokens": value.input_tokens, "output_tokens": value.output_tokens}
    written: dict[str, int] = {name: count for name, count in {**counts, "cost": value.cost}.items() if count}
    if not value.complete:
        written["incomplete"] = True
    if not value.priced:
        written["unpriced"] = True
    return written


def _usage(got: Fields) -> Usage:
    counts = got["requests"], got["input_tokens"], got["output_tokens"]
    return Usage(*counts, not got["incomplete"], got["cost"], not got["unpriced"])


# Events ---------------------------------------------------------------------------------------------------

StreamEntry: TypeAlias = tuple[bytes, Sequence[bytes]]


def entry(kind: RecordType, stored: StreamEntry) -> tuple[str, Fields]:
    """Read the record of a stream's entry, and the entry's id."""
    return text(stored[0]), form.unpack(kind, pairs(stored[1])[b"e"])


def new_event(value: NewEvent, bodies: Bodies) -> Values:
    """Write an event, as a script takes it."""
    written: dict[str, str | bool] = {
        "type": value.type,
        "actor": value.actor,
        "label": str(value.label),
        "admitted": value.admitted,
        "turn": value.turn,
        "body": bodies.put(dump(event_json(value.body))),
    }
    if value.visibility is not Visibility.INTERNAL:
        written["visibility"] = value.visibility.value
    if value.carried is not None:
        written["carried"] = bodies.put(dump(value.carried))
    if value.refs:
        written["refs"] = refs.written(value.refs)
    return written


def event_bodies(got: Fields) -> tuple[str, str]:
    """Return an event's body as stored, and the fold that it carries."""
    return got["body"], got["carried"]


def event(name: str, got: Fields, fetched: Fetched) -> Event:
    """Read an event from its record and its entry's id."""
    return Event(
        seq=int(name.partition("-")[0]),
        ts=got["time"],
        generation=got["generation"],
        actor=got["actor"],
        label=label(got["label"]),
        visibility=Visibility(got["visibility"]),
        admitted=got["admitted"],
        turn=got["turn"],
        body=event_from(got["type"], _object(got["body"] or "{}", fetched)),
        carried=_object(got["carried"], fetched) if got["carried"] else None,
        refs=refs.read(got["refs"]),
    )


# Inbox ----------------------------------------------------------------------------------------------------


def item(got: Fields, fetched: Fetched) -> InboxItem:
    """Read a waiting item."""
    return InboxItem(
        position=got["position"],
        dedupe=got["dedupe"],
        sender=got["sender"],
        label=label(got["label"]),
        body=message(got["body"], fetched),
        accepted_at=got["accepted_at"],
        refs=refs.read(got["refs"]),
        part=got["part"],
    )


def outcome(stored: bytes) -> ItemOutcome:
    """Read the outcome of an input from its dedupe record."""
    got = form.unpack(kinds.INPUT, stored)
    return ItemOutcome(ItemStatus.HELD) if got["held"] else ItemOutcome(ItemStatus(got["status"]), got["seq"])


def message(stored: str, fetched: Fetched) -> SessionMessage:
    """Read a message from its record, or from the reference there."""
    return message_from(_object(stored, fetched))


def _object(stored: str, fetched: Fetched) -> JsonObject:
    return _read_json(whole(stored, fetched))


# Audit chain ----------------------------------------------------------------------------------------------


def audit_record(record: AuditRecord) -> bytes:
    """Write a record of a chain, without its number and `previous`: its place there and the record before tell them."""
    body = dump(record.body)
    values = {"time": record.ts, "kind": record.kind, "actor": record.actor, "body": body, "hash": record.hash}
    return form.pack(kinds.AUDIT_ROW, values)


def audit_records(chain: Sequence[bytes], genesis: str, after: int) -> tuple[AuditRecord, ...]:
    """Read chain records with n > `after`; `chain` begins with the record before them, if there is one.

    Each follows the hash of the record before it, the first `genesis`.
    """
    previous, found = genesis, list[AuditRecord]()
    for n, stored in enumerate(chain, after or 1):
        got = form.unpack(kinds.AUDIT_ROW, stored)
        if n > after:
            told = cast("JsonObject", json.loads(got["body"]))
            found.append(AuditRecord(n, got["time"], got["kind"], got["actor"], told, previous, got["hash"]))
        previous = got["hash"]
    return tuple(found)


# Approvals and deliveries ---------------------------------------------------------------------------------


def new_delivery(new: NewDelivery, channel: str, bodies: Bodies) -> Values:
    """Write a delivery, as a script takes it; `channel` is that of its address, encoded."""
    endorsed = [[one.session, one.text, one.run, one.millibits] for one in new.endorsed]
    return {
        "channel": channel,
        "address": new.address,
        "label": str(new.label),
        "kind": new.kind,
        "turn": new.turn,
        "approved": listing(new.approved),
        "hops": new.hops,
        "release": new.release,
        "asker": new.asker,
        "replaces": new.replaces,
        "meant_for": new.meant_for,
        "untrusted": new.untrusted,
        "authors": listing(new.authors),
        "endorsed": listing(endorsed),
        "body": bodies.put(dump(new.text)),
        "refs": refs.written(new.refs),
    }


def delivery(sid: str, name: bytes, got: Fields, fetched: Fetched) -> Delivery:
    """Read a delivery from its record."""
    return Delivery(
        sid=sid,
        key=text(name),
        address=got["address"],
        text=cast("str", json.loads(whole(got["body"], fetched))),
        label=label(got["label"]),
        kind=got["kind"],
        turn=got["turn"],
        state=DeliveryState(got["state"]),
        created_at=got["created"],
        attempt=got["attempt"],
        generation=got["generation"],
        approved=tuple(cast("list[str]", listed(got["approved"]))),
        hops=got["hops"],
        release=got["release"],
        asker=got["asker"],
        replaces=got["replaces"],
        meant_for=got["meant_for"],
        untrusted=got["untrusted"],
        authors=tuple(cast("list[str]", listed(got["authors"]))),
        endorsed=tuple([Endorsed(*one) for one in cast("list[Any]", listed(got["endorsed"]))]),
        arrival=Arrival(got["arrival"]) if got["arrival"] else None,
        failures=got["failures"],
        doubtful=got["doubtful"],
        receipt=got["receipt"],
        refs=refs.read(got["refs"]),
    )


def listing(values: Sequence[object]) -> str:
    """Write a list as one text, an empty one for none."""
    return dump(list(values)) if values else ""


def listed(stored: str) -> list[object]:
    """Read a list that was written as one text."""
    return cast("list[object]", json.loads(stored)) if stored else []
