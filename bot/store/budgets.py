"""Daily budgets in the store: each account checks its own limits, and has a portion of the budget of all.

An account is a person or a shared chat, with a slot of its own. The budget of all together is granted in portions (ADR
0029). A reservation is counted in the portion of its person; the centre is asked only if that is too small. If the
centre has too little left, accounts are asked for their unused tokens.

The order makes it safe. The centre grants before an account takes, and an account gives back before the centre is told.
So accounts may never use more than the centre knows of, even if a process dies meanwhile. Each grant has a number from
one count, and an account takes none older than the last one it knows: returned tokens stay returned.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.core.errors import LeaseLostError, ResetError, StoreError
from bot.sessions.budgets import DAY_MS, Budgets, Lack, Shortage, Spender, Spent, Whose
from bot.sessions.limits import TokenAllowance
from bot.store.calls import Arguments, ScriptAnswer, ScriptCall, call, nested, session_call
from bot.store.records import codec
from bot.store.records.codec import Fields, raw, text
from bot.store.records.form import unpack
from bot.store.records.kinds import PORTION, RESERVATION
from bot.store.records.kinds import SPENT as SPENT_TODAY
from bot.store.schema import GRANTS, SPENDERS, budget_keys, chat_account, decode, person_account, session_keys
from bot.store.scripts.loader import Script
from bot.store.shared import Shared

_PERSON: Final = "p/"
"""The beginning of a person's account name: a reservation is counted in the portion of that account."""

_WHOSE: Final = MappingProxyType({"p": Whose.PERSON, "c": Whose.CHAT})

_PARTS: Final = 64
"""A portion is at least this fraction (one of so many parts) of the day's budget, as long as enough of it is left."""

_TRIES: Final = 16
"""How often an account may lose its new grant to others before that counts as set aside by them."""

_BATCH: Final = 100
"""How many accounts are asked in one round trip."""

_HINT_SECONDS: Final = 2 * DAY_MS // 1000

_HINTED_SECONDS: Final = 600.0
"""For how many seconds a process believes that its hint is there."""

_SUM: Final = "all"
_OWN: Final = b"portion"
"""The fields of the sum of all portions, and of an account's own."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A requested reservation: `op` is the call that asks."""

    id: str
    op: str
    pool: str
    tokens: int
    life: int
    total: int | None

    def reserve(self, account: str, most: int | None, grant: Arguments | None) -> ScriptCall:
        """Return the call that sets the tokens aside at an account."""
        args = {"id": self.id, "op": self.op, "life": self.life, "tokens": self.tokens, "pool": self.pool}
        leased = self.total is not None and account.startswith(_PERSON)
        return _call(Script.RESERVE_TOKENS, account, {**args, "most": most, "leased": leased, "grant": grant})


@dataclass(frozen=True, slots=True)
class _Stored:
    """The stored records of an account, and when they were read, in milliseconds on the store's clock."""

    account: str
    spent: Sequence[bytes]
    spending: Sequence[bytes]
    now: int

    def today(self) -> Iterator[Spent]:
        """Yield the account's use today, by pool."""
        fields, found, today = codec.pairs(self.spent), dict[str, tuple[int, bool]](), self.now // DAY_MS
        own = fields.pop(_OWN, None)
        if own is not None and unpack(PORTION, own)["day"] >= today:
            for pool, stored in fields.items():
                got = unpack(SPENT_TODAY, stored)
                found[text(pool)] = got["tokens"], not got["incomplete"]
        for stored in codec.pairs(self.spending).values():
            got = unpack(RESERVATION, stored)
            # It lapsed today, unsettled.
            if got["lapses"] < self.now and got["lapses"] // DAY_MS == today:
                found[got["pool"]] = found.get(got["pool"], (0, False))[0], False
        for pool, (tokens, complete) in sorted(found.items()):
            whose, name = _WHOSE[self.account[0]], decode(self.account[2:])
            yield Spent(whose, name, codec.label(pool), tokens, complete)


class RedisBudgets:
    """Implements the port `BudgetStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._total = TotalBudget(shared)
        self._hinted_day = 0
        self._hinted_until = 0.0
        self._hinted = set[str]()

    async def reserve_tokens(
        self, reservation: str, spender: Spender, tokens: int, *, budgets: Budgets, life: int
    ) -> Shortage | None:
        """Set tokens aside at the person and the chat, or at none of them if a budget does not suffice."""
        await self._total.begin(budgets.all)
        pool = str(spender.label.secrecy)
        asked = _Asked(reservation, self._shared.ids.op(), pool, tokens, life, budgets.all)
        limits = dict(zip(_accounts(spender), (budgets.person, budgets.chat), strict=False))
        answers = dict[str, ScriptAnswer]()
        try:
            shortage = await self._set_aside(asked, limits, answers)
        except StoreError:
            with suppress(StoreError):
                await self._release(asked, limits)
            raise
        done = [account for account, got in answers.items() if got.word == "ok"]
        if shortage is None:
            await self._hint(answers)
        elif done:
            await self._release(asked, done)
        return shortage

    async def settle_tokens(self, reservation: str, spender: Spender, tokens: int, *, complete: bool) -> None:
        """Count the tokens used in place of those set aside."""
        args = {"id": reservation, "tokens": tokens, "complete": complete, "pool": str(spender.label.secrecy)}
        accounts = _accounts(spender)
        calls = [_call(Script.SETTLE_TOKENS, account, args, op=reservation) for account in accounts]
        answers = dict(zip(accounts, await self._run(calls), strict=True))
        await self._hint(answers)
        person = answers[accounts[0]]
        if person.flag("beyond"):
            await self._total.used_beyond(accounts[0], person)

    async def reserve_of_session(self, reservation: str, tokens: int, allowance: TokenAllowance) -> Shortage | None:
        """Set tokens of a session's own budget aside, in one step of its own slot."""
        got = await self._spend(reservation, tokens, allowance, most=allowance.tokens)
        return Shortage(Whose.SESSION, Lack(got.text("lack"))) if got.word == "short" else None

    async def charge_session(self, reservation: str, tokens: int, allowance: TokenAllowance) -> None:
        """Charge a session's own budget for the tokens used."""
        await self._spend(reservation, tokens, allowance)

    async def _spend(
        self, reservation: str, tokens: int, allowance: TokenAllowance, *, most: int | None = None
    ) -> ScriptAnswer:
        claim = nested({"generation": allowance.generation, "fence": allowance.fence})
        args = {"claim": claim, "id": reservation, "tokens": tokens, "most": most}
        got = await self._shared.run(session_call(Script.SPEND, session_keys(allowance.sid), args))
        if got.word == "stale":
            raise LeaseLostError("another worker has the session")
        if got.word == "reset":
            raise ResetError("the session was reset; its use is not charged")
        return got

    async def spent_today(self) -> tuple[Spent, ...]:
        """Return the tokens used today, with reservations that lapsed today and are not noted yet."""
        hinted, granted = await self._shared.connection.commands(("SMEMBERS", SPENDERS), ("HKEYS", GRANTS))
        found, gone = list[_Stored](), list[str]()
        for batch in _batches(sorted({*map(text, hinted), *map(text, granted)} - {_SUM})):
            keys = [budget_keys(account) for account in batch]
            asked = [("HGETALL", key) for one in keys for key in (one.spent, one.spending)]
            *flat, clock = await self._shared.connection.commands(*asked, ("TIME",))
            for account, spent, spending in zip(batch, flat[::2], flat[1::2], strict=True):
                found.append(_Stored(account, spent, spending, codec.clock_ms(clock)))
                if not spent and not spending:
                    gone.append(account)
        if gone:
            await self._forget(gone)
        return codec.reading(lambda: tuple(spent for one in found for spent in one.today()))

    async def _set_aside(
        self, asked: _Asked, limits: Mapping[str, int | None], answers: dict[str, ScriptAnswer]
    ) -> Shortage | None:
        """Set tokens aside, and keep the last answers of the accounts in `answers`."""
        person, grant = next(iter(limits)), None
        for _ in range(_TRIES):
            left = [account for account in limits if account not in answers or answers[account].word != "ok"]
            calls = [asked.reserve(one, limits[one], grant if one == person else None) for one in left]
            answers |= zip(left, await self._run(calls), strict=True)
            shortage = _told(answers)
            if shortage is not None and shortage.lack is not Lack.HELD:
                return shortage
            if asked.total is not None and asked.tokens > asked.total:
                return Shortage(Whose.ALL, Lack.NEVER)
            if shortage is not None:
                # One that is used up is reported before one that is only set aside.
                used = asked.total is not None and await self._total.used_up(asked.tokens, asked.total)
                return Shortage(Whose.ALL, Lack.USED) if used else shortage
            if answers[person].word == "ok" or asked.total is None:
                return None
            grant = await self._total.grant(person, answers[person], asked.tokens, asked.total)
            if isinstance(grant, Lack):
                return Shortage(Whose.ALL, grant)
        return Shortage(Whose.ALL, Lack.HELD)

    async def _release(self, asked: _Asked, accounts: Iterable[str]) -> None:
        args = {"id": asked.id, "op": asked.op}
        await self._run([_call(Script.RELEASE_TOKENS, account, args) for account in accounts])

    async def _run(self, calls: Sequence[ScriptCall]) -> list[ScriptAnswer]:
        """Run one script at several accounts in one round trip. Raises StoreError."""
        if len(calls) == 1:
            return [await self._shared.run(calls[0])]
        answers = await self._shared.run_all(calls)
        # Alone the call tells why its record cannot be read.
        return [await self._shared.run(one) if got is None else got for one, got in zip(calls, answers, strict=True)]

    async def _hint(self, answers: Mapping[str, ScriptAnswer]) -> None:
        """Note that accounts used tokens, again from time to time: a lost hint is soon there again."""
        day, now = max(got.number("day") for got in answers.values()), self._shared.clock.monotonic()
        if day != self._hinted_day or now >= self._hinted_until:
            self._hinted_day, self._hinted_until, self._hinted = day, now + _HINTED_SECONDS, set[str]()
        new = answers.keys() - self._hinted
        if not new:
            return
        with suppress(StoreError):
            await self._shared.connection.commands(
                ("SADD", SPENDERS, *map(raw, new)), ("EXPIRE", SPENDERS, _HINT_SECONDS)
            )
            self._hinted |= new

    async def _forget(self, accounts: Sequence[str]) -> None:
        """Remove the hints of accounts without stored records, except those that were used again meanwhile."""
        await self._shared.connection.commands(("SREM", SPENDERS, *map(raw, accounts)))
        keys = [budget_keys(account) for account in accounts]
        there = await self._shared.connection.commands(*(("EXISTS", one.spent, one.spending) for one in keys))
        back = [account for account, used in zip(accounts, there, strict=True) if used]
        if back:
            await self._shared.connection.commands(("SADD", SPENDERS, *map(raw, back)))


class TotalBudget:
    """The budget of all together: grants portions of it to accounts, and takes back unused parts."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._limit: int | None = None
        self._beginning = asyncio.Lock()

    async def begin(self, most: int | None) -> None:
        """Count tokens used or granted without a limit, before this process first asks under one.

        Raises StoreError.
        """
        if most is None or most == self._limit:
            self._limit = most
            return
        async with self._beginning:
            if most == self._limit:
                return
            (hinted,) = await self._shared.connection.commands(("SMEMBERS", SPENDERS))
            grants = await self._grants()
            for batch in _batches(sorted({*map(text, hinted), *grants} - {_SUM})):
                # Under the number 0 nothing is taken back.
                people = [account for account in batch if account.startswith(_PERSON)]
                calls = [_call(Script.RECALL_TOKENS, one, {"number": 0}) for one in people]
                for account, got in zip(people, await self._shared.run_all(calls), strict=True):
                    known = grants[account]["granted"] if account in grants else 0
                    if got is not None and got.number("wanted") > known:
                        await self._count(account, got)
            if (await self._sum())["granted"] > most:
                await self._recall_all()
            self._limit = most

    async def grant(self, account: str, said: ScriptAnswer, tokens: int, most: int) -> Arguments | Lack:
        """Grant an account as much as it said it needs for `tokens`; return the grant, or why there is none.

        `most` is the budget of all together. Raises StoreError.
        """
        args = {**_stated(account, said), "tokens": tokens, "part": max(1, most // _PARTS), "most": most}
        got = await self._granted(args)
        if got is Lack.HELD:
            for batch in await self._unused():
                await self._recall(batch)
                got = await self._granted(args)
                if got is not Lack.HELD:
                    break
        return got

    async def used_up(self, tokens: int, most: int) -> bool:
        """Return whether too little for `tokens` is left, reserved tokens not counted. Raises StoreError."""
        known = await self._sum()
        if known["used"] + tokens > most or known["granted"] + tokens <= most:
            return known["used"] + tokens > most
        await self._recall_all()
        return (await self._sum())["used"] + tokens > most

    async def used_beyond(self, account: str, said: ScriptAnswer) -> None:
        """Tell the centre of an account's use beyond its grant; if that fails, it learns of it later."""
        if self._limit is not None:
            with suppress(StoreError):
                await self._count(account, said)

    async def _granted(self, args: Arguments) -> Arguments | Lack:
        got = await self._shared.run(call(Script.GRANT_TOKENS, {"grants": GRANTS}, args))
        if got.word != "ok":
            return Lack(got.text("lack"))
        return nested({name: got.number(name) for name in ("number", "granted", "time")})

    async def _count(self, account: str, said: ScriptAnswer) -> None:
        """Grant an account the tokens that it has used and set aside already."""
        await self._shared.run(call(Script.GRANT_TOKENS, {"grants": GRANTS}, _stated(account, said)))

    async def _sum(self) -> Fields:
        """Return the sum of all portions, with the use of today that the centre knows."""
        stored, clock = await self._shared.connection.commands(("HGET", GRANTS, _SUM), ("TIME",))
        today = codec.clock_ms(clock) // DAY_MS
        if stored is None:
            return {"granted": 0, "used": 0, "day": today}
        found = codec.reading(lambda: unpack(PORTION, stored))
        return found if found["day"] >= today else {**found, "used": 0}

    async def _grants(self) -> dict[str, Fields]:
        """Return the portions of all accounts, and their sum; use of an earlier day counts no longer."""
        flat, clock = await self._shared.connection.commands(("HGETALL", GRANTS), ("TIME",))
        today, found = codec.clock_ms(clock) // DAY_MS, dict[str, Fields]()
        for name, stored in codec.pairs(flat).items():
            found[text(name)] = one = codec.reading(lambda stored=stored: unpack(PORTION, stored))
            if one["day"] < today:
                one["used"] = 0
        return found

    async def _unused(self) -> Iterator[dict[str, Fields]]:
        """Return in batches the accounts whose grants may have an unused part, those with the largest first."""
        grants = await self._grants()
        unused = {account: one["granted"] - one["used"] for account, one in grants.items()}
        found = sorted((one for one in grants if one != _SUM and unused[one]), key=unused.__getitem__, reverse=True)
        return ({one: grants[one] for one in batch} for batch in _batches(found))

    async def _recall_all(self) -> None:
        for batch in await self._unused():
            await self._recall(batch)

    async def _recall(self, grants: Mapping[str, Fields]) -> None:
        """Take back the unused parts of accounts' grants: first there, then at the centre."""
        seen = {account: {"number": one["number"]} for account, one in grants.items()}
        answers = await self._shared.run_all([_call(Script.RECALL_TOKENS, one, args) for one, args in seen.items()])
        lowered = [
            call(Script.LOWER_GRANT, {"grants": GRANTS}, _stated(account, got) | seen[account])
            for account, got in zip(seen, answers, strict=True)
            if got is not None and got.word == "ok"
        ]
        await self._shared.run_all(lowered)


def _accounts(spender: Spender) -> list[str]:
    """Return the accounts in which a spender's tokens are counted, the person's first."""
    chat = [chat_account(spender.chat)] if spender.chat else []
    return [person_account(spender.person), *chat]


def _call(script: Script, account: str, args: Arguments, *, op: str = "") -> ScriptCall:
    keys = budget_keys(account)
    return call(script, {"spent": keys.spent, "spending": keys.spending, "op": keys.op(op)}, args)


def _stated(account: str, said: ScriptAnswer) -> dict[str, str | int]:
    """Return an account's answer about itself in the form that the centre takes."""
    return {"account": account, **{name: said.number(name) for name in ("number", "used", "day", "wanted")}}


def _told(answers: Mapping[str, ScriptAnswer]) -> Shortage | None:
    """Return the first budget that is used up, or else the first of which too much is set aside."""
    short = [
        Shortage(_WHOSE[account[0]], Lack(got.text("lack"))) for account, got in answers.items() if got.word == "short"
    ]
    return next((one for one in short if one.lack is not Lack.HELD), short[0] if short else None)


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[begin : begin + _BATCH] for begin in range(0, len(names), _BATCH))
