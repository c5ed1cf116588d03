"""How overrides and pairings are written: fields of a hash, each value its schema version and JSON or words.

No I/O here. Labels are their text form; whether a policy knows their compartments is not decided here.
"""

import json
from collections.abc import Sequence
from typing import Final, cast

from bot.sessions.approvals import PairingRequest
from bot.sessions.models import SCHEMA
from bot.store.keys import decode, encode
from bot.store.wire import check_version, dump, pairs, raw, text
from policy.document.overrides import Change, ChatPlace, Overrides, Person, Placing
from policy.labels import Label, parse
from policy.request import Role

_OURS: Final = frozenset({b"v", b"n"})


def overrides(flat: Sequence[bytes]) -> tuple[int, Overrides]:
    """Read all overrides and their count."""
    got = pairs(flat)
    check_version(got.get(b"v", b"0"))
    people, places, blocked = dict[str, Person](), dict[ChatPlace, Placing](), set[str]()
    for field, stored in got.items():
        if field in _OURS:
            continue
        kind, _, name = text(field).partition(":")
        version, _, rest = stored.partition(b" ")
        check_version(version)
        value = json.loads(text(rest))
        match kind:
            case "person":
                role, clearance, accounts = value
                people[name] = Person(None if role is None else Role(role), _label(clearance), frozenset(accounts))
            case "place":
                classification, vouched, shut = value
                channel, workspace, chat = map(decode, name.split(":"))
                places[ChatPlace(channel, workspace, chat)] = Placing(_label(classification), vouched, shut)
            case _:
                blocked.add(name)
    return int(got.get(b"n", b"0")), Overrides(people, places, frozenset(blocked))


def fields(change: Change) -> list[tuple[bytes, bytes]]:
    """Write a change: fields with their values, an empty one for what is taken away."""
    written = list[tuple[bytes, bytes]]()
    for name, person in change.people.items():
        value = person and [person.role, _text(person.clearance), sorted(person.accounts)]
        written.append((raw(f"person:{name}"), _value(value)))
    for place, placing in change.places.items():
        value = placing and [_text(placing.classification), placing.vouched, placing.blocked]
        name = ":".join(map(encode, (place.channel, place.workspace, place.chat)))
        written.append((raw(f"place:{name}"), _value(value)))
    for account, blocked in change.accounts.items():
        written.append((raw(f"blocked:{account}"), _value([] if blocked else None)))
    return written


def scope(channel: str, workspace: str) -> str:
    """Write where a stranger asks."""
    return f"{encode(channel)}:{encode(workspace)}"


def pairings(flat: Sequence[bytes]) -> list[PairingRequest]:
    """Read who waits for an answer, the first who asked first."""
    found = list[PairingRequest]()
    for field, stored in pairs(flat).items():
        version, state, asked, expires, where, digest = text(stored).split(" ")
        check_version(raw(version))
        if state == "pending":
            channel, workspace = map(decode, where.split(":"))
            account = text(field).partition(":")[2]
            found.append(PairingRequest(account, channel, workspace, int(asked), int(expires), digest))
    return sorted(found, key=lambda one: (one.asked_at, one.account))


def _value(value: Sequence[object] | None) -> bytes:
    return b"" if value is None else raw(f"{SCHEMA} ") + dump(value)


def _text(label: Label | None) -> str | None:
    return None if label is None else str(label)


def _label(written: object) -> Label | None:
    return None if written is None else parse(cast("str", written))
