"""The policy in force for all processes of the store, people's changes to it, and pairing requests of strangers.

They are kept beside the audit chain with the rows of those changes.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Final, cast

from bot.core.errors import BusyError, NotFoundError
from bot.sessions.approvals import CODE_LIFE_MS, MOST_REQUESTS, MOST_WRONG_CODES, Answered, PairingRequest
from bot.sessions.audit import AuditRow, PolicyHead
from bot.store.calls import Arguments, ScriptAnswer, call, nested
from bot.store.records import codec
from bot.store.records.codec import dump, pairs, text
from bot.store.records.form import Values, check_version, complete, unpack
from bot.store.records.kinds import BLOCKED, CHAT, PAIRING, PERSON
from bot.store.schema import OVERRIDES, PAIRINGS, POLICY, audit_op, decode, encode
from bot.store.scripts.loader import Script
from bot.store.shared import POLICY_ASKED, Shared
from policy.document.overrides import AccessChange, ChatPlace, Overrides, Person, Placing
from policy.labels import Label, parse
from policy.request import Role

_KEYS: Final = MappingProxyType({"policy": POLICY, "overrides": OVERRIDES})


class RedisPolicy:
    """Implements the port `PolicyStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    @property
    def policy_head(self) -> PolicyHead | None:
        """The policy head that this process read last, None for none."""
        return self._shared.policy

    async def read_policy(self) -> PolicyHead | None:
        """Read the policy head now, and the time on the store's clock."""
        reply, clock = await self._shared.connection.commands(POLICY_ASKED, ("TIME",))
        self._shared.time.saw(codec.clock_ms(clock))
        self._shared.saw_policy(reply)
        return self._shared.policy

    async def put_policy(
        self, digest: str, process: str, audit: tuple[AuditRow, ...], *, only_if_none: bool = False
    ) -> PolicyHead:
        """Put a policy in force and append its rows to the chain `audit`, in one step."""
        args = {"digest": digest, "process": process, "only_if_none": only_if_none}
        got = await self._shared.change_outside(Script.PUT_POLICY, _KEYS, args, audit)
        self._shared.saw_policy_of(got)
        return PolicyHead(got.text("digest"), got.number("time"), got.text("process"), got.number("changes"))


class RedisAccess:
    """Implements the port `AccessStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def overrides(self) -> tuple[int, Overrides]:
        """Read people's changes, and their number."""
        (flat,) = await self._shared.connection.commands(("HGETALL", OVERRIDES))
        return codec.reading(lambda: read_overrides(flat))

    async def override(
        self, change: AccessChange, known: int, audit: tuple[AuditRow, ...], answered: Answered | None = None
    ) -> int | None:
        """Make a change and append its rows to the chain `audit`, in one step."""
        args = {
            "known": known,
            "seen": self._shared.time.wall_ms(),
            "answered": None if answered is None else nested(asdict(answered)),
            "changes": [{"field": name, "record": record} for name, record in change_fields(change)],
        }
        keys = {**_KEYS, "pairings": PAIRINGS}
        got = await self._shared.change_outside(Script.OVERRIDE, keys, args, audit)
        if got.word == "gone":
            raise NotFoundError
        if got.word == "moved":
            return None
        self._shared.saw_policy_of(got)
        return got.number("count")

    async def ask_pairing(self, account: str, channel: str, workspace: str, digest: str) -> bool:
        """Keep a pairing request, if it is new and few others wait there; say whether it was kept."""
        asked = {"account": account, "scope": scope(channel, workspace), "digest": digest}
        got = await self._pair(Script.ASK_PAIRING, {**asked, "life": CODE_LIFE_MS, "most": MOST_REQUESTS})
        return got.word == "ok"

    async def try_pairing(self, principal: str, *digests: str) -> tuple[str, str] | None:
        """Return the account that was given a code, and its digest; None for a wrong code, which is counted."""
        tried = {"principal": principal, "digests": list(digests), "seen": self._shared.time.wall_ms()}
        got = await self._pair(Script.TRY_PAIRING, {**tried, "life": CODE_LIFE_MS, "most": MOST_WRONG_CODES})
        if got.word == "locked":
            raise BusyError
        return (got.text("account"), got.text("digest")) if got.word == "found" else None

    async def pairings(self) -> tuple[PairingRequest, ...]:
        """Return the pairing requests that wait for an answer, the oldest first."""
        flat, clock = await self._shared.connection.commands(("HGETALL", PAIRINGS), ("TIME",))
        now = codec.clock_ms(clock)
        found = codec.reading(lambda: read_pairings(flat))
        return tuple(one for one in found if one.expires_at > now)

    async def _pair(self, script: Script, args: Arguments) -> ScriptAnswer:
        keys = {"pairings": PAIRINGS, "op": audit_op(self._shared.ids.op())}
        return await self._shared.run(call(script, keys, args))


_VOUCHED: Final = MappingProxyType({None: "", True: "yes", False: "no"})

_VOUCHES: Final = MappingProxyType({stored: vouched for vouched, stored in _VOUCHED.items()})

_OURS: Final = frozenset({b"version", b"count"})


def read_overrides(flat: Sequence[bytes]) -> tuple[int, Overrides]:
    """Read all overrides and their count."""
    got = pairs(flat)
    if got:
        check_version(got.get(b"version", b""))
    people, places, blocked = dict[str, Person](), dict[ChatPlace, Placing](), set[str]()
    for field, stored in got.items():
        if field in _OURS:
            continue
        kind, _, name = text(field).partition(":")
        match kind:
            case "person":
                one = unpack(PERSON, stored)
                role = Role(one["role"]) if one["role"] else None
                accounts = cast("list[str]", json.loads(one["accounts"] or "[]"))
                people[name] = Person(role, _label(one["clearance"]), frozenset(accounts))
            case "place":
                one = unpack(CHAT, stored)
                channel, workspace, chat = map(decode, name.split(":"))
                place = ChatPlace(channel, workspace, chat)
                places[place] = Placing(_label(one["classification"]), _VOUCHES[one["vouched"]], one["blocked"])
            case _:
                unpack(BLOCKED, stored)
                blocked.add(name)
    return int(got.get(b"count", b"0")), Overrides(people, places, frozenset(blocked))


def change_fields(change: AccessChange) -> list[tuple[str, Values | None]]:
    """Write a change: fields with their records, None for fields to delete."""
    written = list[tuple[str, Values | None]]()
    for name, person in change.people.items():
        written.append((f"person:{name}", None if person is None else complete(PERSON, _person(person))))
    for place, placing in change.places.items():
        name = ":".join(map(encode, (place.channel, place.workspace, place.chat)))
        written.append((f"place:{name}", None if placing is None else complete(CHAT, _chat(placing))))
    for account, blocked in change.accounts.items():
        written.append((f"blocked:{account}", complete(BLOCKED, {"account": account}) if blocked else None))
    return written


def _person(person: Person) -> Values:
    accounts = dump(sorted(person.accounts)) if person.accounts else ""
    return {"role": person.role or "", "clearance": _text(person.clearance), "accounts": accounts}


def _chat(placing: Placing) -> Values:
    classification = _text(placing.classification)
    return {"classification": classification, "vouched": _VOUCHED[placing.vouched], "blocked": placing.blocked}


def scope(channel: str, workspace: str) -> str:
    """Write the channel and workspace where a stranger asks."""
    return f"{encode(channel)}:{encode(workspace)}"


def read_pairings(flat: Sequence[bytes]) -> list[PairingRequest]:
    """Read the pairing requests that wait, the oldest first."""
    found = list[PairingRequest]()
    for field, stored in pairs(flat).items():
        one = unpack(PAIRING, stored)
        if one["state"] == "pending":
            channel, workspace = map(decode, one["scope"].split(":"))
            account = text(field).partition(":")[2]
            found.append(PairingRequest(account, channel, workspace, one["created"], one["expires"], one["digest"]))
    return sorted(found, key=lambda one: (one.asked_at, one.account))


def _text(label: Label | None) -> str:
    return "" if label is None else str(label)


def _label(written: str) -> Label | None:
    return parse(written) if written else None
