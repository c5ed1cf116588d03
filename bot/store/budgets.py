"""The part of the store that counts what is used of budgets: one place for all, so that one script sees them all."""

from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bot.sessions.budgets import DAY_MS, Budgets, Lack, Shortage, Spender, Spent, Whose
from bot.store import wire
from bot.store.base import Part
from bot.store.keys import SPENDING, SPENT, decode, encode, spending_op
from bot.store.scripts import Script
from bot.store.wire import raw, text

if TYPE_CHECKING:
    from bot.store.link import Arg

_ACCOUNTS: Final = MappingProxyType({"p": Whose.PERSON, "c": Whose.CHAT})
_NOBODY: Final = "-"


class Budget(Part):
    """Implements the port `BudgetStore`."""

    async def reserve_tokens(
        self, reservation: str, spender: Spender, tokens: int, budgets: Budgets, life: int
    ) -> Shortage | None:
        """Set tokens aside, unless a budget does not suffice."""
        most = ("" if limit is None else limit for limit in (budgets.person, budgets.chat, budgets.all))
        args: list[Arg] = ["reserve", raw(reservation), life, tokens, *_accounts(spender), *most]
        reply = await self._link.script(Script.BUDGET, [SPENT, SPENDING, spending_op(reservation)], args)
        return None if reply[0] == b"ok" else Shortage(Whose(text(reply[1])), Lack(text(reply[2])))

    async def settle_tokens(self, reservation: str, spender: Spender, tokens: int, *, complete: bool) -> None:
        """Count what was used in the place of what was set aside."""
        args: list[Arg] = ["settle", raw(reservation), tokens, int(complete), *_accounts(spender)]
        await self._link.script(Script.BUDGET, [SPENT, SPENDING, spending_op(reservation)], args)

    async def spent_today(self) -> tuple[Spent, ...]:
        """Return what was used today, with what came back today and is not noted yet."""
        flat, open_, clock = await self._link.commands(("HGETALL", SPENT), ("HGETALL", SPENDING), ("TIME",))
        fields, now, found = wire.pairs(flat), wire.clock_ms(clock), dict[bytes, bytes]()
        if fields:
            wire.check_version(fields[b"v"])
            if int(fields[b"day"]) >= now // DAY_MS:
                found = {name: value for name, value in fields.items() if b" " in name}
        for name in wire.reading(
            lambda: [one for record in wire.pairs(open_).values() for one in _lapsed(record, now)]
        ):
            tokens, *_ = found.get(name, b"0").split()
            found[name] = tokens + b" 0"
        return wire.reading(lambda: tuple(_spent(name, value) for name, value in found.items()))


def _lapsed(record: bytes, now: int) -> Iterator[bytes]:
    """Yield the fields of the day that a reservation counts in which came back today, unsettled."""
    version, until, _, *accounts, pool = record.split()
    wire.check_version(version)
    if int(until) < now and int(until) // DAY_MS == now // DAY_MS:
        yield from (account + b" " + pool for account in accounts if account != _NOBODY.encode())


def _accounts(spender: Spender) -> tuple[str, str, str]:
    chat = f"c/{encode(spender.chat)}" if spender.chat else _NOBODY
    return f"p/{encode(spender.person)}", chat, str(spender.label.secrecy)


def _spent(name: bytes, value: bytes) -> Spent:
    account, label = name.split(b" ")
    kind, _, who = text(account).partition("/")
    tokens, complete = value.split()
    return Spent(_ACCOUNTS[kind], decode(who), wire.label(label), int(tokens), complete == b"1")
