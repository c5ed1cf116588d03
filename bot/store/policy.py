"""The policy in force for all processes of the store, what people changed in it, and strangers who ask to be let in.

It is kept beside the audit chain that tells who changed it.
"""

import json
from collections.abc import Sequence
from typing import Final, cast

from bot.core.errors import BusyError, NotFoundError
from bot.sessions.approvals import CODE_LIFE_MS, MOST_REQUESTS, MOST_WRONG_CODES, Answered, PairingRequest
from bot.sessions.audit import AuditRow, PolicyHead
from bot.sessions.models import SCHEMA
from bot.store import codec
from bot.store.codec import check_version, dump, pairs, raw, text
from bot.store.connection import Arg, Reply
from bot.store.schema import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, OVERRIDES, PAIRINGS, POLICY, audit_op, decode, encode
from bot.store.scripts import Script
from bot.store.shared import POLICY_ASKED, Shared
from policy.document.overrides import AccessChange, ChatPlace, Overrides, Person, Placing
from policy.labels import Label, parse
from policy.request import Role


class RedisPolicy:
    """Implements the port `PolicyStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    @property
    def policy_head(self) -> PolicyHead | None:
        """What this process read last of it, None for none."""
        return self._shared.policy

    async def read_policy(self) -> PolicyHead | None:
        """Read it now."""
        (reply,) = await self._shared.connection.commands(POLICY_ASKED)
        self._shared.saw_policy(reply)
        return self._shared.policy

    async def put_policy(
        self, digest: str, process: str, audit: tuple[AuditRow, ...], *, only_if_none: bool = False
    ) -> PolicyHead:
        """Put a policy in force and append the rows that tell of it to the chain `audit`, in one step."""
        names = [AUDIT_HEAD, AUDIT_CHAIN, audit_op(self._shared.ids.op()), POLICY, OVERRIDES]

        async def run(rows: list[Arg]) -> list[Reply]:
            return await self._shared.connection.script(
                Script.PUT_POLICY, names, [digest, raw(process), int(only_if_none), *rows]
            )

        _, n, head, *put = await self._shared.chaining(AUDIT, audit, run)
        self._shared.saw_head(AUDIT, (int(n), text(head)))
        self._shared.saw_policy(put)
        return PolicyHead(text(put[1]), int(put[2]), text(put[3]), int(put[4] or 0))


class RedisAccess:
    """Implements the port `AccessStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def overrides(self) -> tuple[int, Overrides]:
        """Read what was changed, and how many changes there were."""
        (flat,) = await self._shared.connection.commands(("HGETALL", OVERRIDES))
        return codec.reading(lambda: read_overrides(flat))

    async def override(
        self, change: AccessChange, known: int, audit: tuple[AuditRow, ...], answered: Answered | None = None
    ) -> int | None:
        """Change something and append the rows that tell of it to the chain `audit`, in one step."""
        names = [AUDIT_HEAD, AUDIT_CHAIN, audit_op(self._shared.ids.op()), POLICY, OVERRIDES, PAIRINGS]
        who = ("", "", 0) if answered is None else (raw(answered.account), answered.digest, answered.keep)
        fields = change_fields(change)

        async def run(rows: list[Arg]) -> list[Reply]:
            args: list[Arg] = [known, *who, len(fields)]
            for name, value in fields:
                args += [name, value]
            return await self._shared.connection.script(Script.OVERRIDE, names, [*args, *rows])

        reply = await self._shared.chaining(AUDIT, audit, run)
        if reply[0] == b"gone":
            raise NotFoundError
        if reply[0] == b"moved":
            return None
        _, n, head, count, *put = reply
        self._shared.saw_head(AUDIT, (int(n), text(head)))
        self._shared.saw_policy([*put, count])
        return int(count)

    async def ask_pairing(self, account: str, channel: str, workspace: str, digest: str) -> bool:
        """Keep a stranger's question, if it is new and few others wait there; say whether it was kept."""
        asked: list[Arg] = ["ask", raw(account), scope(channel, workspace), digest]
        reply = await self._pair([*asked, CODE_LIFE_MS, MOST_REQUESTS])
        return reply[0] == b"ok"

    async def try_pairing(self, principal: str, digest: str) -> str | None:
        """Return the account that was given a code, None for a wrong one, which is counted."""
        tried: list[Arg] = ["try", raw(principal), digest]
        reply = await self._pair([*tried, CODE_LIFE_MS, MOST_WRONG_CODES])
        if reply[0] == b"locked":
            raise BusyError
        return text(reply[1]) if reply[0] == b"found" else None

    async def pairings(self) -> tuple[PairingRequest, ...]:
        """Return the strangers who wait for an answer, the first who asked first."""
        flat, (seconds, micros) = await self._shared.connection.commands(("HGETALL", PAIRINGS), ("TIME",))
        now = int(seconds) * 1000 + int(micros) // 1000
        found = codec.reading(lambda: read_pairings(flat))
        return tuple(one for one in found if one.expires_at > now)

    async def _pair(self, args: list[Arg]) -> list[Reply]:
        return await self._shared.connection.script(Script.PAIR, [audit_op(self._shared.ids.op()), PAIRINGS], args)


_OURS: Final = frozenset({b"v", b"n"})


def read_overrides(flat: Sequence[bytes]) -> tuple[int, Overrides]:
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


def change_fields(change: AccessChange) -> list[tuple[bytes, bytes]]:
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


def read_pairings(flat: Sequence[bytes]) -> list[PairingRequest]:
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
