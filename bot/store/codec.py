"""Stored bytes to frozen values and back: the one place that knows how a record is written.

Text is any Python text: UTF-8 with lone surrogates passed through, so it comes back as it went. Bodies are JSON
in the same encoding; one over `INLINE` bytes is stored under a key of its own and `@<id>` stands in its place.
No I/O here. A record of a newer version, or one that cannot be read, raises SchemaError.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar, cast

from bot.core.errors import UNREADABLE, SchemaError
from bot.core.json_values import JsonObject
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.audit import AuditRecord
from bot.sessions.delegation import Arrival, FieldKind, Lineage, ResultField
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.sessions.event_types import YieldReason
from bot.sessions.events import Event, Visibility
from bot.sessions.inbox import InboxItem, ItemOutcome, ItemStatus, QueueMode
from bot.sessions.messages import Endorsed, SessionMessage
from bot.sessions.models import SCHEMA, LastTurn, SessionState, Status, Title, Turn, Usage
from bot.sessions.serialization import event_from, message_from, question_from, question_json
from bot.store.schema import decode
from policy.errors import LabelTextError
from policy.labels import Label, parse

if TYPE_CHECKING:
    _Answer = tuple[str, str, str, int]
    _Facts = tuple[str, str, str, str, list[str], int, int, str, str, str, list[str], list[_Answer]]


INLINE: Final = 32 * 1024
"""Longest body, in bytes, that stays in its record."""


_T = TypeVar("_T")


def raw(text: str) -> bytes:
    """Encode any text."""
    return text.encode("utf-8", "surrogatepass")


def text(stored: bytes) -> str:
    """Decode what `raw` encoded."""
    return stored.decode("utf-8", "surrogatepass")


def dump(value: object, *, sort: bool = False) -> bytes:
    """Encode a JSON value; with `sort`, equal objects give equal bytes."""
    return raw(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort))


@dataclass(slots=True)
class Bodies:
    """Collects the large bodies of one script call: their ids in order, and what they hold."""

    large: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])

    def put(self, body: bytes) -> bytes:
        """Return what stands for the body in its record."""
        if len(body) <= INLINE:
            return body
        ref = hashlib.sha256(body).hexdigest()[:32].encode("ascii")
        self.large[ref] = body
        return b"@" + ref


Fetched = Mapping[bytes, bytes]
"""Large bodies by id, as read back."""


def refs(bodies: Iterable[bytes]) -> list[bytes]:
    """Return the ids of the large bodies that these stand for."""
    return [body[1:] for body in bodies if body[:1] == b"@"]


def whole(body: bytes, fetched: Fetched) -> bytes:
    """Return a body as it was put, from what stands for it.

    Raises SchemaError: it is not there.
    """
    if body[:1] != b"@":
        return body
    found = fetched.get(body[1:])
    if found is None:
        raise SchemaError(f"the store lost the body `{text(body[1:])}`", next_step="restore the store from a backup")
    return found


@lru_cache(maxsize=4096)
def label(stored: bytes) -> Label:
    """Read a label's text form."""
    return parse(stored.decode("ascii"))


def clock_ms(reply: list[bytes]) -> int:
    """Return what `TIME` answered as the scripts have it, in milliseconds."""
    seconds, micros = reply
    return int(seconds) * 1000 + int(micros) // 1000


def reading(read: Callable[[], _T]) -> _T:
    """Run a decoder; what it cannot read is a record this program does not know.

    Raises SchemaError: for any malformed record.
    """
    try:
        return read()
    except (ValueError, KeyError, IndexError, TypeError, LabelTextError) as error:
        raise unreadable() from error


def unreadable() -> SchemaError:
    """Return the error for a record that this program cannot read."""
    return SchemaError("the store holds records that this program cannot read", next_step=UNREADABLE)


def check_version(stored: bytes) -> None:
    """Refuse a record of a newer version.

    Raises SchemaError: if it is one.
    """
    if int(stored) > SCHEMA:
        raise newer(text(stored))


def newer(version: str) -> SchemaError:
    """Return the error for a record of another version."""
    return SchemaError(
        f"the store holds records of version `{version}`, this program reads version `{SCHEMA}`",
        next_step="upgrade lockgate",
    )


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Read a flat reply of fields and values."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


# State ----------------------------------------------------------------------------------------------------


def state(sid: str, flat: Sequence[bytes]) -> SessionState:
    """Read a session's record from its hash."""
    got = pairs(flat)
    check_version(got[b"v"])

    def number(name: bytes) -> int:
        return int(got.get(name, b"0"))

    def labelled(name: bytes) -> Label:
        return label(got.get(name, b"PUBLIC"))

    return SessionState(
        sid=sid,
        generation=number(b"gen"),
        generation_seq=number(b"gseq"),
        seq=number(b"seq"),
        status=Status(text(got[b"status"])),
        taint=labelled(b"taint"),
        creation=labelled(b"made"),
        inbox_label=labelled(b"typed"),
        home=text(got[b"home"]),
        principal=text(got[b"who"]),
        created_at=number(b"born"),
        updated_at=number(b"moved"),
        waiting_items=number(b"wait"),
        turn=_turn(got[b"turn"]) if b"turn" in got else None,
        last_turn=_last_turn(got[b"last"]) if b"last" in got else None,
        usage=_usage(got[b"usage"].split()) if b"usage" in got else Usage(),
        undelivered=number(b"out"),
        stopping=b"stop" in got,
        lineage=_lineage(got[b"kin"]) if b"kin" in got else None,
        ended_at=number(b"done"),
        given_title=_title(got[b"title"]) if b"title" in got else None,
        model=text(got.get(b"model", b"")),
        mode=mode(got.get(b"mode", b"")),
        turned=labelled(b"turned") if b"turned" in got else None,
        unsaid=b"dead" in got,
        context_seq=max(number(b"cut"), number(b"gseq")),
    )


def mode(stored: bytes) -> QueueMode:
    """Read how a session takes what comes while a turn runs."""
    return QueueMode(text(stored)) if stored else QueueMode.COLLECT


def title(value: Title) -> bytes:
    """Write a title."""
    return f"{value.label} ".encode("ascii") + raw(value.text)


def _title(stored: bytes) -> Title:
    labelled, _, rest = stored.partition(b" ")
    return Title(text(rest), label(labelled))


def audit_head(flat: Sequence[bytes]) -> tuple[int, str]:
    """Read the audit head out of a session's record."""
    got = pairs(flat)
    return int(got.get(b"an", b"0")), text(got.get(b"ah", b""))


def fence(flat: Sequence[bytes]) -> int:
    """Read the fence out of a session's record."""
    return int(pairs(flat)[b"fence"])


def turn(value: Turn) -> bytes:
    """Write an open turn."""
    numbers = (value.attempt, int(value.suspended), value.position, value.started_at, *usage(value.usage))
    rest = [value.id, value.dedupe, value.sender, value.hops, list(value.joined)]
    return " ".join(map(str, numbers)).encode("ascii") + b"\n" + dump(rest)


def _turn(stored: bytes) -> Turn:
    head, _, rest = stored.partition(b"\n")
    words = head.split()
    attempt, suspended, position, started_at = map(int, words[:4])
    name, dedupe, sender, hops, joined = cast("tuple[str, str, str, int, list[int]]", json.loads(text(rest)))
    usage = _usage(words[4:])
    return Turn(name, position, dedupe, sender, started_at, attempt, bool(suspended), usage, hops, tuple(joined))


_KIN: Final = (
    *("parent", "generation", "run", "depth", "deadline", "title", "deliver_to", "meant"),
    *("asked_at", "root", "root_generation", "endorsed", "beyond"),
)
"""The parts of a lineage that are written as they are."""


def lineage(value: Lineage) -> bytes:
    """Write where a background session comes from."""
    returns = [
        [field.name, field.kind.value, list(field.members), field.least, field.most, field.step]
        for field in value.returns
    ]
    return dump({**{name: getattr(value, name) for name in _KIN}, "returns": returns, "known": str(value.known)})


def _lineage(stored: bytes) -> Lineage:
    written = json.loads(text(stored))
    returns = tuple(
        [
            ResultField(name, FieldKind(kind), tuple(members), *within)
            for name, kind, members, *within in written["returns"]
        ]
    )
    return Lineage(**{name: written[name] for name in _KIN}, returns=returns, known=parse(written["known"]))


def last_turn(value: LastTurn) -> bytes:
    """Write how the last turn ended."""
    numbers = (value.started_at, value.completed_at, value.attempt, value.result_seq, *usage(value.usage))
    return " ".join(map(str, numbers)).encode("ascii") + b"\n" + dump([value.id, value.reason.value, value.error])


def _last_turn(stored: bytes) -> LastTurn:
    head, _, rest = stored.partition(b"\n")
    words = head.split()
    started_at, completed_at, attempt, result_seq = map(int, words[:4])
    name, reason, error = _strings(rest)
    return LastTurn(name, YieldReason(reason), started_at, completed_at, attempt, result_seq, error, _usage(words[4:]))


def usage(value: Usage) -> tuple[int, int, int, int, int, int]:
    """Write what models were asked, as six numbers."""
    tokens = value.requests, value.input_tokens, value.output_tokens
    return *tokens, int(value.complete), value.cost, int(value.priced)


def _usage(words: Sequence[bytes]) -> Usage:
    requests, tokens_in, tokens_out, complete, cost, priced = map(int, words)
    return Usage(requests, tokens_in, tokens_out, bool(complete), cost, bool(priced))


# Events ---------------------------------------------------------------------------------------------------

StreamEntry = tuple[bytes, Sequence[bytes]]


_PLAIN: Final = 20
"""Names and values of an entry that carries nothing."""


def event_bodies(entry: StreamEntry) -> Sequence[bytes]:
    """Return an entry's body as stored, and what it carries if it carries anything."""
    return entry[1][19::2]


def event(entry: StreamEntry, fetched: Fetched) -> Event:
    """Read an event from its stream entry, whose fields stand in the order the scripts write them."""
    name, fields = entry
    check_version(fields[1])
    return Event(
        seq=int(name.partition(b"-")[0]),
        ts=int(fields[3]),
        generation=int(fields[5]),
        actor=text(fields[9]),
        label=label(fields[11]),
        visibility=Visibility(text(fields[13])),
        admitted=fields[15] == b"1",
        turn=text(fields[17]),
        body=event_from(text(fields[7]), _object(whole(fields[19], fetched))),
        carried=_object(whole(fields[21], fetched)) if len(fields) > _PLAIN else None,
    )


# Inbox ----------------------------------------------------------------------------------------------------


def item_body(stored: bytes) -> bytes:
    """Return an item's body as stored."""
    head, _, rest = stored.partition(b"\n")
    return rest[sum(map(int, head.split()[4:6])) :]


def item(stored: bytes, fetched: Fetched) -> InboxItem:
    """Read a waiting item."""
    head, _, rest = stored.partition(b"\n")
    version, position, at, labelled, *lengths = head.split()
    check_version(version)
    first, second, _ = map(int, lengths)
    return InboxItem(
        position=int(position),
        dedupe=text(rest[:first]),
        sender=text(rest[first : first + second]),
        label=label(labelled),
        body=message(rest[first + second :], fetched),
        accepted_at=int(at),
    )


def outcome(stored: bytes) -> ItemOutcome:
    """Read what became of an input from its dedupe record."""
    version, _, status, _, _, *noted = stored.split()
    check_version(version)
    if noted == [b"-"]:
        return ItemOutcome(ItemStatus.HELD)
    return ItemOutcome(ItemStatus(text(status)), int(noted[0]) if noted else 0)


def message(stored: bytes, fetched: Fetched) -> SessionMessage:
    """Read what a message carries from its record, or from what stands there for it."""
    return message_from(_object(whole(stored, fetched)))


# Audit chain ----------------------------------------------------------------------------------------------


def audit_records(chain: Sequence[bytes], genesis: str, after: int) -> tuple[AuditRecord, ...]:
    """Read chain records with n > `after`; `chain` begins with the record before them, if there is one.

    Each follows on the hash of the record before it, the first on `genesis`.
    """
    previous, records = genesis, list[AuditRecord]()
    for n, stored in enumerate(chain, after or 1):
        head, _, rest = stored.partition(b"\n")
        version, ts, digest, *lengths = head.split()
        check_version(version)
        first, second = map(int, lengths)
        if n > after:
            kind, actor = text(rest[:first]), text(rest[first : first + second])
            body = _object(rest[first + second :])
            records.append(AuditRecord(n, int(ts), kind, actor, body, previous, text(digest)))
        previous = text(digest)
    return tuple(records)


def _object(stored: bytes) -> JsonObject:
    return cast("JsonObject", json.loads(text(stored)))


def _strings(stored: bytes) -> list[str]:
    return cast("list[str]", json.loads(text(stored)))


def approval_tail(value: Approval) -> bytes:
    """Write what never changes of an approval."""
    bound = [value.turn, value.call, value.tool, value.binding, str(value.label), value.principal]
    return dump([bound, list(value.rules), question_json(value.question), value.alone])


def approval(sid: str, name: bytes, stored: bytes, now: int) -> Approval:
    """Read an approval; one past its time, pending or approved, reads as EXPIRED."""
    head, _, rest = stored.partition(b"\n")
    version, word, generation, expires, length = head.split()
    check_version(version)
    found, expires_at, by = ApprovalState(text(word)), int(expires), int(length)
    if expires_at <= now and found in {ApprovalState.PENDING, ApprovalState.APPROVED}:
        found = ApprovalState.EXPIRED
    bound, rules, question, alone = cast("tuple[list[str], list[str], JsonObject, bool]", json.loads(text(rest[by:])))
    turn_id, call, tool, binding, labelled, principal = bound
    return Approval(
        id=text(name),
        sid=sid,
        generation=int(generation),
        turn=turn_id,
        call=call,
        tool=tool,
        binding=binding,
        label=parse(labelled),
        principal=principal,
        question=question_from(question),
        rules=tuple(rules),
        expires_at=expires_at,
        state=found,
        resolved_by=text(rest[:by]),
        alone=alone,
    )


def delivery_tail(new: NewDelivery, body: bytes) -> bytes:
    """Write what never changes of a delivery; `body` is its text as JSON, or what stands for it."""
    rest = [list(new.approved), new.hops, new.release]
    endorsed = [[one.session, one.text, one.run, one.millibits] for one in new.endorsed]
    last: list[object] = [new.asker, new.replaces, new.meant_for, list(new.authors), endorsed]
    while last and not last[-1]:
        last.pop()
    return dump([new.address, str(new.label), new.kind, new.turn, *rest, *last]) + b"\n" + body


def delivery_body(stored: bytes) -> bytes:
    """Return a delivery's text as stored."""
    return stored.rpartition(b"\n")[2]


def delivery(sid: str, name: bytes, stored: bytes, fetched: Fetched) -> tuple[int, Delivery]:
    """Read a delivery and its number in the order of the outbox."""
    head, _, rest = stored.partition(b"\n")
    version, word, number, generation, created_at, attempt, _, _, _, length, *more = head.split()
    check_version(version)
    facts, _, body = rest[int(length) :].partition(b"\n")
    found = cast("list[object]", json.loads(text(facts)))
    written = (*found, *("", "", "", list[str](), list[object]())[len(found) - 7 :])
    read = cast("_Facts", written)
    address, labelled, kind, turn_id, approved, hops, release, asker, replaces, meant_for, authors, endorsed = read
    return int(number), Delivery(
        sid=sid,
        key=text(name),
        address=address,
        text=cast("str", json.loads(text(whole(body, fetched)))),
        label=parse(labelled),
        kind=kind,
        turn=turn_id,
        state=DeliveryState(text(word)),
        created_at=int(created_at),
        attempt=int(attempt),
        generation=int(generation),
        approved=tuple(approved),
        hops=hops,
        release=release,
        asker=asker,
        replaces=replaces,
        meant_for=meant_for,
        authors=tuple(authors),
        endorsed=tuple([Endorsed(*one) for one in endorsed]),
        arrival=next((Arrival(text(word)) for word in more if word.isalpha()), None),
        failures=next((int(word) for word in more if word.isdigit()), 0),
        doubtful=b"!" in more,
        receipt=next((decode(text(word[1:])) for word in more if word.startswith(b"=")), ""),
    )
