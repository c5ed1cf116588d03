"""Budgets under every order of calls: replies that are lost, processes that are killed, and days that begin.

What is checked after each exchange with the server is read there, so that it holds at every instant, and not only when
a call has ended.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bot.sessions.budgets import DAY_MS, Budgets, Lack, Shortage, Spender, Spent, Whose
from bot.store.budgets import RedisBudgets
from bot.store.schema import budget_keys, chat_account, person_account
from bot.store.servers.connection import Reply
from bot.store.servers.embedded_server import Supervisor
from policy.labels import PUBLIC
from tests.store.stepped import CHAT, LIFE, PEOPLE, Exchange, Seen, Server, accounts_of, emptied, look, process
from tests.store.world import SECRET, served

ALL: Final = 100
LIMITS: Final = Budgets(person=60, chat=70, all=ALL)
# An example takes a fifth of a second, so there are fewer of them than of other properties.
NO_SHRINKING: Final = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate], max_examples=max(1, settings().max_examples * 2 // 5)
)
"""A failing example takes minutes to shrink, as each step asks a server."""


@dataclass
class Races:
    """Calls that run at once, what they must come to, and what the server is seen to hold.

    `used` counts by account and pool what was settled today, `over` how much of that was not set aside for it.
    """

    server: Server
    processes: list[RedisBudgets]
    seen: Seen
    tasks: list["asyncio.Task[None]"] = field(default_factory=list["asyncio.Task[None]"])
    late: list[Exchange] = field(default_factory=list[Exchange])
    open: list[tuple[str, Spender, int]] = field(default_factory=list[tuple[str, Spender, int]])
    settling: dict[str, tuple[str, str, int]] = field(default_factory=dict[str, tuple[str, str, int]])
    used: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    over: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    names: int = 0
    killed: bool = False

    async def step(self, what: str, one: int, two: int) -> None:
        """Let one thing happen."""
        match what:
            case "reserve":
                self._begin(self._reserve(self.processes[one % 2], one, two % 45 + 1))
            case "settle" if self.open:
                self._begin(self._settle(self.processes[one % 2], *self.open.pop(one % len(self.open)), two))
            case "go" if self.server.waiting:
                await self._go(self.server.waiting.pop(one % len(self.server.waiting)), two % 10)
            case "late" if self.late:
                await self._run(self.late.pop(one % len(self.late)))
            case "lapse" | "evening" | "midnight":
                await self._pass_time(self.server.later(what))
            case "restart":
                self.processes[one % 2] = process(self.server)
            case _:
                return
        # What runs goes on up to its next exchange.
        for _ in range(12):
            await asyncio.sleep(0)
        if what not in {"reserve", "settle", "restart"}:
            self.check()

    async def _pass_time(self, till: int) -> None:
        if till // DAY_MS > self.server.now // DAY_MS:
            self.used.clear()
            self.over.clear()
        await self.server.pass_time(till)
        self.seen = await look(self.server)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def _reserve(self, budgets: RedisBudgets, which: int, tokens: int) -> None:
        self.names += 1
        name, pool = f"r{self.names}", (PUBLIC, SECRET)[which // 4 % 2]
        spender = Spender(PEOPLE[which % 3], CHAT if which % 5 < 2 else "", pool)
        if await budgets.reserve_tokens(name, spender, tokens, budgets=LIMITS, life=LIFE) is None:
            self.open.append((name, spender, tokens))

    async def _settle(self, budgets: RedisBudgets, name: str, spender: Spender, aside: int, how: int) -> None:
        # Now and then a model uses more than was set aside for it.
        tokens = aside + how if how > 90 else how * aside // 90
        for one in accounts_of(spender):
            self.settling[budget_keys(one).op(name)] = one, str(spender.label.secrecy), tokens
        await budgets.settle_tokens(name, spender, tokens, complete=True)

    async def _go(self, exchange: Exchange, fate: int) -> None:
        """Let an exchange go: it is answered, or its reply is lost, or its process is killed before or after it."""
        match fate:
            case 6:
                await self._run(exchange)
                reply = await self._run(exchange)
            case 7:
                reply = await self._run(exchange)
                self.late.append(exchange)
            case 8 | 9:
                if fate == 8:
                    await self._run(exchange)
                assert exchange.task is not None
                exchange.task.cancel()
                self.killed = True
                return
            case _:
                reply = await self._run(exchange)
        exchange.reply.set_result(reply)

    async def _run(self, exchange: Exchange) -> Reply:
        settled = self.settling.pop(exchange.keys[2], None) if len(exchange.keys) == 3 else None
        before = self.seen
        reply = await exchange.run()
        self.seen = await look(self.server)
        if settled is not None:
            account, pool, tokens = settled
            self.used[account, pool] += tokens
            self.over[account, pool] += max(0, self.seen.accounts[account].total - before.accounts[account].total)
        return reply

    def check(self) -> None:
        """Check what is so at every instant."""
        now = self.seen
        grants = {**now.grants}
        assert grants.pop("all", 0) == sum(grants.values())
        if grants:
            portions = {**now.portions}
            all_ = portions.pop("all")
            assert all_["used"] == sum(one["used"] for one in portions.values() if one["day"] == all_["day"])
        for name, account in now.accounts.items():
            limit = LIMITS.person if name[0] == "p" else LIMITS.chat
            for pool in {*account.pools, *(pool for pool, _ in account.aside.values())}:
                aside = sum(tokens for here, tokens in account.aside.values() if here == pool)
                assert account.pools[pool] == self.used[name, pool]
                assert limit is not None
                assert account.pools[pool] + aside <= limit + self.over[name, pool]
            assert account.used == sum(account.pools.values())
            assert account.granted <= grants.get(name, 0)
        over = sum(tokens for (name, _), tokens in self.over.items() if name[0] == "p")
        assert now.total <= ALL + over

    async def end(self) -> None:
        """Let all calls end, and what they set aside lapse; then all that was not used must be there for somebody."""
        while self.server.waiting:
            await self.step("go", 0, 0)
        for task in self.tasks:
            assert task.done()
            assert task.cancelled() or task.exception() is None
        self.server.waiting = None
        await self.step("lapse", 0, 0)
        left, dan = ALL - self.seen.total, Spender("dan", "", PUBLIC)
        budgets, limit = process(self.server), Budgets(all=ALL)

        async def reserved(tokens: int) -> Shortage | None:
            self.names += 1
            return await budgets.reserve_tokens(f"r{self.names}", dan, tokens, budgets=limit, life=LIFE)

        # A process that was killed may have told nobody of what it used beyond what was set aside.
        if left >= 0 and not self.killed:
            assert await reserved(left + 1) == Shortage(Whose.ALL, Lack.USED if left < ALL else Lack.NEVER)
        if left > 0:
            assert await reserved(left) is None
            assert await reserved(1) == Shortage(Whose.ALL, Lack.HELD)


@pytest.fixture(scope="module")
def server() -> Iterator[Supervisor]:
    """A server for these tests alone: they empty it."""
    yield from served()


def steps(*names: str) -> "st.SearchStrategy[list[tuple[str, int, int]]]":
    """Return lists of what happens, which of several it happens to, and how."""
    return st.lists(
        st.tuples(st.sampled_from(names), st.integers(0, 99), st.integers(0, 99)), min_size=60, max_size=150
    )


@NO_SHRINKING
@given(
    steps(*("reserve",) * 4, *("settle",) * 3, *("go",) * 12, "late", "lapse", "evening", "midnight", "restart"),
)
def test_no_order_of_calls_spends_more_than_there_is_or_loses_any(
    server: Supervisor, steps: list[tuple[str, int, int]]
) -> None:
    async def example() -> None:
        async with emptied(server) as one:
            one.waiting = []
            races = Races(one, [process(one), process(one)], await look(one))
            for what in steps:
                await races.step(*what)
            await races.end()

    asyncio.run(example())


@dataclass
class OnePlace:
    """All budgets in one place, as one process alone would keep them: what the store must answer."""

    now: int
    used: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    known: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    unknown: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    total: int = 0
    open: dict[str, tuple[Spender, int, int]] = field(default_factory=dict[str, tuple[Spender, int, int]])

    def pass_time(self, till: int) -> None:
        """Let it be later: what is over comes back, not known on that day."""
        for day in range(self.now // DAY_MS, till // DAY_MS + 1):
            if day > self.now // DAY_MS:
                self.total = 0
                self.used.clear()
                self.known.clear()
                self.unknown.clear()
            for name, (spender, _, lapses) in list(self.open.items()):
                if lapses < till and lapses // DAY_MS == day:
                    del self.open[name]
                    self.unknown |= {(account, str(spender.label)) for account in accounts_of(spender)}
        self.now = till

    def reserve(self, name: str, spender: Spender, tokens: int, budgets: Budgets) -> Shortage | None:
        """Set tokens aside, unless a budget does not suffice."""
        held = Counter[tuple[str, str]]()
        for one, aside, _ in self.open.values():
            held.update({(account, str(one.label)): aside for account in accounts_of(one)})
        person, *chat = [(account, str(spender.label)) for account in accounts_of(spender)]
        all_held = sum(aside for _, aside, _ in self.open.values())
        limits = [(Whose.PERSON, budgets.person, self.used[person], held[person])]
        limits += [(Whose.CHAT, budgets.chat, self.used[one], held[one]) for one in chat]
        limits.append((Whose.ALL, budgets.all, self.total, all_held))
        waiting = None
        for whose, most, used, aside in limits:
            if most is not None and tokens > most - used:
                return Shortage(whose, Lack.NEVER if tokens > most else Lack.USED)
            if most is not None and tokens > most - used - aside:
                waiting = waiting or Shortage(whose, Lack.HELD)
        if waiting is None:
            self.open[name] = spender, tokens, self.now + LIFE
        return waiting

    def settle(self, name: str, share: int) -> tuple[Spender, int]:
        """Count as much of a reservation as used, `share` of 100, and return that with who used it."""
        spender, aside, _ = self.open.pop(name)
        tokens = aside * share // 100
        self.used.update({(account, str(spender.label)): tokens for account in accounts_of(spender)})
        self.known |= {(account, str(spender.label)) for account in accounts_of(spender)}
        self.total += tokens
        return spender, tokens

    def spent(self) -> list[tuple[str, str, int, bool]]:
        """Return what was used today: account, pool, tokens, and whether that is known to be all."""
        found = self.known | self.unknown
        return sorted((*one, self.used[one], one not in self.unknown) for one in found)


_LIMITS: Final = (LIMITS, Budgets(person=60), Budgets(all=ALL), Budgets(chat=50, all=150), Budgets(60, 70, 3000))


@NO_SHRINKING
@given(steps(*("reserve",) * 6, *("settle",) * 4, "lapse", "evening", "midnight", "restart"), st.sampled_from(_LIMITS))
def test_one_call_after_another_is_answered_as_one_place_would(
    server: Supervisor, steps: list[tuple[str, int, int]], limits: Budgets
) -> None:
    async def example() -> None:
        async with emptied(server) as one:
            processes, model = [process(one), process(one)], OnePlace(one.now)
            for number, (what, which, how) in enumerate(steps):
                budgets = processes[which % 2]
                match what:
                    case "reserve":
                        spender = Spender(
                            PEOPLE[which % 3], CHAT if which % 5 < 2 else "", (PUBLIC, SECRET.secrecy)[which // 4 % 2]
                        )
                        answer = await budgets.reserve_tokens(str(number), spender, how + 5, budgets=limits, life=LIFE)
                        assert answer == model.reserve(str(number), spender, how + 5, limits)
                    case "settle" if model.open:
                        name = list(model.open)[which % len(model.open)]
                        spender, tokens = model.settle(name, how)
                        await budgets.settle_tokens(name, spender, tokens, complete=True)
                    case "lapse" | "evening" | "midnight":
                        await one.pass_time(one.later(what))
                        model.pass_time(one.now)
                    case "restart":
                        processes[which % 2] = process(one)
                    case _:
                        pass
                assert sorted(map(told, await budgets.spent_today())) == model.spent()

    asyncio.run(example())


def told(spent: Spent) -> tuple[str, str, int, bool]:
    """Return what is told of an account and a pool."""
    account = person_account(spent.name) if spent.whose is Whose.PERSON else chat_account(spent.name)
    return account, str(spent.label), spent.tokens, spent.complete
