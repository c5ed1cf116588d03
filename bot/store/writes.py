"""A Write as the arguments of the write script; the order is the one in `scripts/write.lua`."""

from collections.abc import Sequence
from urllib.parse import unquote

from bot.sessions.events import NewEvent
from bot.sessions.models import Claim, Write
from bot.store import wire, wire_outgoing
from bot.store.keys import encode
from bot.store.link import Arg
from bot.store.wire import Bodies, dump, raw


def claim_args(claim: Claim) -> list[Arg]:
    """Return what proves that a claim still holds."""
    return [claim.state.generation, claim.fence, claim.owner]


def change_args(write: Write, *, lease_ms: int, keep_ms: int) -> list[Arg]:
    """Return everything of a write up to its deliveries."""
    end = write.end
    args: list[Arg] = [write.cursor, lease_ms, keep_ms, int(write.release)]
    args += ["" if write.take is None else write.take, write.use or "", write.status or ""]
    args.append(wire.turn(write.turn) if write.turn else "")
    args += [int(write.model is not None), raw(write.model or "")]
    args += [wire.last_turn(end) if end else "", "" if write.context is None else write.context]
    args += [*wire.usage(end.usage if end else write.usage)]
    args.append(len(write.settle))
    for position, status in write.settle:
        args += [position, status.value]
    args.append(len(write.ask))
    for approval in write.ask:
        args += [approval.id, approval.expires_at, wire_outgoing.approval_tail(approval)]
    return args


def delivery_args(write: Write, bodies: Bodies, *, sender: str, op: str, lease_ms: int) -> list[Arg]:
    """Return a write's deliveries, claimed by `sender` if there is one."""
    args: list[Arg] = [raw(sender), lease_ms, op if sender else "-", len(write.deliver)]
    for new in write.deliver:
        body = bodies.put(dump(new.text))
        args += [
            raw(new.key),
            channel_of(new.address),
            wire_outgoing.delivery_tail(new, body),
        ]
    return args


def event_args(events: Sequence[NewEvent], bodies: Bodies) -> list[Arg]:
    """Return a write's events."""
    args: list[Arg] = [len(events)]
    for event in events:
        args += [event.type.value, raw(event.actor), str(event.label), event.visibility.value, int(event.admitted)]
        args += [raw(event.turn), bodies.put(dump(event.body))]
        args.append("" if event.carried is None else bodies.put(dump(event.carried)))
    return args


def channel_of(address: str) -> str:
    """Return the channel of an address' text as the outbox notes it, so that a sender takes only what it can send."""
    return encode(unquote(address.partition(":")[0]))
