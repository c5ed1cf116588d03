"""What goes out to people and sessions, as stored: approvals and deliveries. Written and read like `wire` does."""

import json
from typing import TYPE_CHECKING, cast

from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.delegation import Arrival, Endorsed
from bot.sessions.deliveries import Delivery, DeliveryState, NewDelivery
from bot.store.keys import decode
from bot.store.wire import Fetched, check_version, dump, text, whole
from policy.labels import parse

if TYPE_CHECKING:
    from bot.sessions.events import JsonObject

    _Answer = tuple[str, str, str, int]
    _Facts = tuple[str, str, str, str, list[str], int, int, str, str, str, list[str], list[_Answer]]


def approval_tail(value: Approval) -> bytes:
    """Write what never changes of an approval."""
    bound = [value.turn, value.call, value.tool, value.binding, str(value.label), value.principal]
    return dump([bound, list(value.rules), value.question, value.alone])


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
        question=question,
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
