"""What a reader who is cleared for PUBLIC alone could tell of a run, as lines that two runs can be compared by.

That is the whole log of every session that they may know of, in order; its counts and its standing; what was said to
them; and what every command tells them. Ids that are drawn anew in each run are replaced by their order, which keeps
which are the same and nothing else. Moments are left out: timing is outside the law, order is not.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Final

from pydantic import JsonValue

from bot.access.authorize import Caller, Ingress
from bot.history.event_log import told_to
from bot.sessions.log.events import Event
from bot.sessions.models import SessionState
from bot.sessions.transcript import place
from channels.messages import Address
from policy.labels import PUBLIC
from tests.adversary.stage import Seen, Stage

COMMANDS: Final = (
    "/sessions",
    "/agents",
    "/status",
    "/usage",
    "/held",
    "/grants",
    "/stop",
)
"""What the reader types in the end; the last of them changes what there is."""

_ID: Final = re.compile(
    r"(?:(?<=\\n)|(?<![A-Za-z0-9]))"
    r"(?:(?:held-|receipt-|letter-)?(?:[a-z2-7]{16}(?:[a-z2-7]{16})?|[0-9a-f]{16})|mem_[0-9a-f]{12}|mail-[0-9]+-[a-z2-7]{4})\b"
)
_MOMENT: Final = re.compile(r"\b1[6-9][0-9]{11}\b|\b20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+Z?( UTC)?")
_CODE: Final = re.compile(
    r"(?<=/approve )[2-9a-z]{8}|(?<=/deny )[2-9a-z]{8}|(?<=\"approval\": \")[2-9a-z]{8}"
    r"|(?<=/grants revoke )[2-9a-z]{8}|\b[2-9a-z]{8}(?= `\w+` `\{)"
    r"|(?<=/release confirm )[2-9a-z]{8}|(?<=\"code\": \")[2-9a-z]{8}|(?<=\"code\":\")[2-9a-z]{8}"
)
_SEAL: Final = re.compile(
    r'(?<="sum":")[\w-]{43}|(?<="signature":")[\w-]{86}|(?<="key":")[\w-]{43}|(?<=audit:)[\w-]{12}|(?<=>:)[\w-]{12}'
)

_TOOK: Final = re.compile(r"""["']?\b(?:took|idle)["']?[:=] ?\d+,? ?""")
"""For how long a turn went on: timing is outside the laws."""


class Names:
    """Ids by the order in which they are first met."""

    def __init__(self) -> None:
        self._known = dict[str, str]()

    def plain(self, text: str) -> str:
        """Return a text without ids and moments."""
        text = _TOOK.sub("", _CODE.sub(self._name, text))
        return _SEAL.sub("<seal>", _MOMENT.sub("<moment>", _ID.sub(self._name, text)))

    def _name(self, found: re.Match[str]) -> str:
        return self._known.setdefault(found.group(), f"<id {len(self._known)}>")


async def below(stage: Stage, seen: Seen) -> tuple[str, ...]:
    """Return what the reader could tell."""
    names = Names()
    return tuple([names.plain(line) async for line in _lines(stage, seen)])


async def _lines(stage: Stage, seen: Seen) -> AsyncIterator[str]:
    for outbound in seen.sent:
        if await _reads(stage, outbound.address):
            buttons = [button.label for button in outbound.buttons]
            yield f"said at {outbound.address}: {outbound.kind} {outbound.text!r} {buttons}"
    for address, signal in seen.signals:
        if await _reads(stage, address):
            yield f"shown at {address}: {signal}"
    for effect in seen.effects:
        yield f"done: {effect}"
    for where, state in seen.states:
        if state.visibility.flows_to(PUBLIC):
            yield f"session {where}: {_standing(state)}"
            for event in await _log(stage, state):
                yield f"session {where}: {_told(event, state)}"
    for line in [*await _scheduled(stage), *await _asked(stage), *await _read(stage, seen)]:
        yield line


async def _reads(stage: Stage, address: Address) -> bool:
    """Say whether the reader sees what is said at an address, which may be for one alone who knows more."""
    alone = stage.app.gate.document.principal(f"{address.channel}:{address.recipient}")
    if alone is not None:
        return alone[1].clearance.flows_to(PUBLIC)
    destination = await stage.app.gate.readers.destination(address)
    return (destination.clearance or PUBLIC).flows_to(PUBLIC)


async def _log(stage: Stage, state: SessionState) -> list[Event]:
    """Return the events of a session's generation: older ones are shown to the operator alone."""
    log = await stage.app.store.sessions.events(state.sid, limit=10_000)
    return [event for event in log if event.generation == state.generation]


def _standing(state: SessionState) -> str:
    last = None if state.last_turn is None else state.last_turn.reason
    title = None if state.title is None else state.title.text
    return (
        f"{state.status} taint {state.taint} events {state.seq - state.generation_seq + 1} "
        f"waiting {state.waiting_items} ended "
        f"{state.ended_at > 0} last {last} used {asdict(state.usage)} title {title} mode {state.mode} {state.model}"
        f"{_run(state)}"
    )


def _run(state: SessionState) -> str:
    done = state.progress
    if done is None:
        return ""
    return (
        f" run {done.status} {done.task!r} {done.completed} {done.failed} {done.skipped} {done.consecutive} "
        f"{done.breaker} {done.turns} {done.reason}"
    )


def _told(event: Event, state: SessionState) -> str:
    n = place(event, state)
    if not event.label.flows_to(PUBLIC):
        return f"{n} {event.type} hidden"
    body: JsonValue = dict(told_to(event, PUBLIC))
    return f"{n} {event.type} {event.actor} {json.dumps(_timeless(body), sort_keys=True, ensure_ascii=False)}"


def _timeless(value: JsonValue) -> JsonValue:
    """Return a body without the moments that providers and questions are stamped with."""
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if key not in {"timestamp", "expires_at"}}
    if isinstance(value, list):
        return [_timeless(inner) for inner in value]
    return value


async def _scheduled(stage: Stage) -> list[str]:
    known = [one for one in await stage.app.store.schedules.every() if one.label.flows_to(PUBLIC)]
    return [f"schedule {one.kind} {one.status} {one.failures} {one.skipped} {one.text!r}" for one in known]


async def _asked(stage: Stage) -> list[str]:
    """Return what every command answers the reader, as far as it may be said there."""
    found = list[str]()
    lane = stage.world.lanes[0]
    principal = stage.app.gate.document.principal(lane.account)
    assert principal is not None
    caller = Caller(principal[0], principal[1].role, principal[1].clearance, Ingress.COMMAND)
    for line in (*stage.world.asked, *COMMANDS):
        context = stage.app.commands.request(caller, lane.address, stage.app.session_id(lane.address))
        told = await stage.app.commands.answer(context, line)
        may = told.label.flows_to(PUBLIC)
        found.append(f"{line}: {told.text if may else 'withheld'} {[button.label for button in told.buttons]}")
    return found


async def _read(stage: Stage, seen: Seen) -> list[str]:
    """Return what the HTTP API tells a program with a low token, if there is one."""
    if stage.program is None:
        return []
    # As they are now, in the order of the plan.
    now = [await stage.app.store.sessions.state(state.sid) for _, state in seen.states]
    return [f"program: {line}" async for line in stage.program.lines([one for one in now if one is not None])]


def differences(one: tuple[str, ...], other: tuple[str, ...]) -> Iterator[str]:
    """Yield the first lines in which two views differ."""
    for left, right in zip(one, other, strict=False):
        if left != right:
            yield f"secret 0: {left}"
            yield f"secret 1: {right}"
            return
    if len(one) != len(other):
        at = min(len(one), len(other))
        longer, which = (one, 0) if len(one) > len(other) else (other, 1)
        yield f"only with secret {which}: {longer[at]}"
