"""The budget of all together in portions: who has how much of it, what comes back, and what is told when."""

# pyright: reportPrivateUsage=false

from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from bot.sessions.budgets import DAY_MS, Budgets, Lack, Shortage, Spender, Whose
from bot.store.budgets import RedisBudgets
from bot.store.calls import Arguments, call, nested
from bot.store.schema import GRANTS, SPENDERS, budget_keys, person_account
from bot.store.scripts.loader import KEYS, Script
from bot.store.servers.embedded_server import Supervisor
from policy.labels import PUBLIC
from tests.store.stepped import CHAT, LIFE, Server, emptied, look, process
from tests.store.world import served

pytestmark = pytest.mark.anyio

ANN: Final = Spender("ann", "", PUBLIC)
BOB: Final = Spender("bob", "", PUBLIC)
CYD: Final = Spender("cyd", "", PUBLIC)
A: Final = person_account("ann")
B: Final = person_account("bob")
HUNDRED: Final = Budgets(all=100)
USED: Final = Shortage(Whose.ALL, Lack.USED)
HELD: Final = Shortage(Whose.ALL, Lack.HELD)


@pytest.fixture(scope="module")
def supervisor() -> Iterator[Supervisor]:
    """A server for these tests alone: they empty it."""
    yield from served()


@pytest.fixture
async def server(supervisor: Supervisor) -> AsyncIterator[Server]:
    async with emptied(supervisor) as one:
        yield one


@pytest.fixture
def budgets(server: Server) -> RedisBudgets:
    return process(server)


async def reserve(
    budgets: RedisBudgets, name: str, who: Spender, tokens: int, limits: Budgets = HUNDRED
) -> Shortage | None:
    return await budgets.reserve_tokens(name, who, tokens, budgets=limits, life=LIFE)


async def use(
    budgets: RedisBudgets, name: str, who: Spender, tokens: int, used: int = -1, limits: Budgets = HUNDRED
) -> None:
    """Set tokens aside and use them, or another number."""
    assert await reserve(budgets, name, who, tokens, limits) is None
    await budgets.settle_tokens(name, who, tokens if used < 0 else used, complete=True)


async def run(budgets: RedisBudgets, script: Script, of: str, /, **args: object) -> tuple[str, Arguments]:
    """Run a script by itself; return its word and its numbers."""
    own = budget_keys(of)
    keys = {"spent": own.spent, "spending": own.spending, "grants": GRANTS, "op": own.op("o")}
    got = await budgets._shared.run(call(script, keys, args))
    return got.word, {name: got.number(name) for name in ("number", "granted", "time", "wanted")}


async def granted(budgets: RedisBudgets, account: str, known: int, wanted: int) -> Arguments:
    """Let the centre grant an account what it wants."""
    word, got = await run(
        budgets,
        Script.GRANT_TOKENS,
        account,
        account=account,
        number=known,
        used=0,
        day=1,
        wanted=wanted,
        tokens=1,
        part=1,
        most=100,
    )
    assert word == "ok"
    return got


async def with_grant(budgets: RedisBudgets, account: str, name: str, tokens: int, grant: Arguments | None) -> str:
    """Set tokens aside at an account, with a grant."""
    args = {"id": name, "op": "o", "life": LIFE, "tokens": tokens, "pool": "PUBLIC", "leased": True}
    return (await run(budgets, Script.RESERVE_TOKENS, account, **args, grant=grant and nested(grant)))[0]


async def test_no_script_about_budgets_has_keys_of_two_slots() -> None:
    scripts = [script for script in Script if {"spent", "spending", "grants"} & {*KEYS[script]}]
    assert len(scripts) == 6
    for script in scripts:
        for account in (A, "c/chat%3Aroom%3A%3Ateam%3A"):
            own = budget_keys(account)
            keys = {"spent": own.spent, "spending": own.spending, "grants": GRANTS, "op": own.op("o")}
            tags = {keys[name].split("{")[1].split("}")[0] for name in KEYS[script]}
            assert tags in ({f"budget:{account}"}, {"budget"})


async def test_a_portion_at_hand_takes_one_round_trip_with_a_chat_too(server: Server, budgets: RedisBudgets) -> None:
    limits = Budgets(person=50_000, chat=50_000, all=64_000)
    for who in (ANN, Spender("ann", CHAT, PUBLIC)):
        await use(budgets, f"first {who.chat}", who, 10, limits=limits)
        server.asked.clear()
        await use(budgets, f"second {who.chat}", who, 10, limits=limits)
        assert server.asked == ["reserve_tokens", "settle_tokens"]
    # The 64th part of the day was granted at once.
    assert (await look(server)).grants[A] == 1000


async def test_without_a_limit_for_all_nothing_is_asked_but_the_account(server: Server, budgets: RedisBudgets) -> None:
    await use(budgets, "r", ANN, 10, limits=Budgets(person=10))
    assert server.asked == ["reserve_tokens", "SADD", "settle_tokens"]
    assert (await look(server)).grants == {}


async def test_near_the_end_exactly_what_is_needed_is_granted(server: Server, budgets: RedisBudgets) -> None:
    limits = Budgets(all=640)
    grants = list[int]()
    for number, tokens in enumerate((1, 600, 20, 1)):
        who = Spender(f"p{number}", "", PUBLIC)
        assert await reserve(budgets, f"r{number}", who, tokens, limits) is None
        grants.append((await look(server)).grants[person_account(who.person)])
    assert grants == [10, 600, 20, 1]


async def test_what_others_do_not_use_of_their_portions_comes_back(server: Server, budgets: RedisBudgets) -> None:
    await use(budgets, "a", ANN, 60, 10)
    assert await reserve(budgets, "b", BOB, 60) is None
    assert await reserve(budgets, "c", CYD, 31) == HELD
    assert await reserve(budgets, "c", CYD, 30) is None
    seen = await look(server)
    assert seen.grants == {"all": 100, A: 10, B: 60, person_account("cyd"): 30}
    # What is used up is told from what the centre knows, without asking anybody.
    await budgets.settle_tokens("b", BOB, 60, complete=True)
    await budgets.settle_tokens("c", CYD, 30, complete=True)
    assert await reserve(budgets, "d", ANN, 1) == USED
    server.asked.clear()
    assert await reserve(budgets, "d", ANN, 1) == USED
    assert server.asked == ["reserve_tokens", "grant_tokens"]


async def test_a_grant_that_was_taken_back_is_taken_by_nobody(server: Server, budgets: RedisBudgets) -> None:
    """Its process was slow: meanwhile the account gave back what it never took, and another one has it."""
    slow = await granted(budgets, A, 0, 80)
    assert await reserve(budgets, "b", BOB, 70) is None
    assert (await look(server)).grants == {"all": 70, B: 70}
    assert await with_grant(budgets, A, "a", 80, slow) == "need"
    # Nor is it if the account was granted as much anew, and gave that back.
    again = await granted(budgets, A, slow["number"], 20)
    assert await with_grant(budgets, A, "a", 20, again) == "ok"
    assert (await run(budgets, Script.RELEASE_TOKENS, A, id="a", op="o"))[0] == "ok"
    assert await reserve(budgets, "c", CYD, 30) is None
    for old in (slow, again):
        assert await with_grant(budgets, A, "a", 10, old) == "need"


async def test_a_recall_of_an_older_grant_changes_nothing(budgets: RedisBudgets) -> None:
    """Else a grant between the two that was taken back would be taken after it."""
    first = await granted(budgets, A, 0, 10)
    second = await granted(budgets, A, first["number"], 80)
    assert (await run(budgets, Script.RECALL_TOKENS, A, number=second["number"]))[0] == "ok"
    back = {"account": A, "number": second["number"], "used": 0, "day": 1, "wanted": 0}
    assert (await run(budgets, Script.LOWER_GRANT, A, **back))[0] == "ok"
    assert (await run(budgets, Script.RECALL_TOKENS, A, number=first["number"]))[0] == "newer"
    assert await with_grant(budgets, A, "a", 1, second) == "need"


async def test_a_recall_that_was_not_told_of_leaves_the_portion_to_its_account(budgets: RedisBudgets) -> None:
    """The process that took it back was killed before it told the centre."""
    await use(budgets, "a", ANN, 100, 10)
    number = (await granted(budgets, A, 0, 0))["number"]
    assert (await run(budgets, Script.RECALL_TOKENS, A, number=number))[0] == "ok"
    assert await reserve(budgets, "b", ANN, 90) is None


async def test_a_grant_is_not_taken_a_day_later(server: Server, budgets: RedisBudgets) -> None:
    """By then the account may have forgotten what it gave back: it is kept for two days."""
    old = await granted(budgets, A, 0, 80)
    assert await with_grant(budgets, A, "a", 1, old) == "ok"
    keys = budget_keys(A)
    for key, life in ((keys.spent, 2 * DAY_MS), (keys.spending, 2 * DAY_MS + LIFE)):
        (left,) = await server.connection.commands(("PTTL", key))
        assert life - 60_000 < left <= life
    await server.connection.commands(("DEL", keys.spent))
    await server.pass_time(server.now + DAY_MS)
    assert await with_grant(budgets, A, "b", 1, old) == "need"


async def test_a_call_gives_back_what_it_set_aside_and_nothing_of_another(budgets: RedisBudgets) -> None:
    """A chat that is short frees the person. A late copy of that call frees nothing that was set aside since."""
    here, limits = Spender("ann", CHAT, PUBLIC), Budgets(person=100, chat=10)
    assert await reserve(budgets, "a", here, 11, limits) == Shortage(Whose.CHAT, Lack.NEVER)
    assert await reserve(budgets, "b", here, 10, limits) is None
    assert await reserve(budgets, "c", here, 1, limits) == Shortage(Whose.CHAT, Lack.HELD)
    assert await reserve(budgets, "d", ANN, 90, limits) is None
    assert (await run(budgets, Script.RELEASE_TOKENS, A, id="d", op="another"))[0] == "ok"
    assert await reserve(budgets, "e", ANN, 1, limits) == Shortage(Whose.PERSON, Lack.HELD)


async def test_a_reservation_of_an_earlier_call_becomes_that_of_the_next(budgets: RedisBudgets) -> None:
    """The first could not give it back, as the store was away: the second may."""
    assert await with_grant(budgets, A, "a", 5, await granted(budgets, A, 0, 5)) == "ok"
    again = {"id": "a", "op": "next", "life": LIFE, "tokens": 5, "pool": "PUBLIC", "leased": True}
    assert (await run(budgets, Script.RESERVE_TOKENS, A, **again))[0] == "ok"
    for op, left in (("o", "need"), ("next", "ok")):
        assert (await run(budgets, Script.RELEASE_TOKENS, A, id="a", op=op))[0] == "ok"
        assert await with_grant(budgets, A, "b", 5, None) == left


async def test_what_was_used_beyond_counts_for_all_and_not_on_the_next_day(
    server: Server, budgets: RedisBudgets
) -> None:
    assert await reserve(budgets, "b", BOB, 50) is None
    await use(budgets, "a", ANN, 50, 90)
    assert await reserve(budgets, "c", CYD, 11) == USED
    assert await reserve(budgets, "c", CYD, 10) == HELD
    await budgets.settle_tokens("b", BOB, 0, complete=True)
    assert await reserve(budgets, "c", CYD, 11) == USED
    assert await reserve(budgets, "c", CYD, 10) is None
    await budgets.settle_tokens("c", CYD, 0, complete=True)
    # More was granted than there is, and none of it may be used twice.
    await server.pass_time(server.later("midnight"))
    aside = [await reserve(budgets, f"n{number}", (ANN, BOB, CYD)[number % 3], 25) for number in range(6)]
    assert aside == [None] * 4 + [HELD] * 2
    assert (await look(server)).total == 100


async def test_a_new_day_begins_with_portions_of_what_is_set_aside(server: Server, budgets: RedisBudgets) -> None:
    await server.pass_time(server.later("evening"))
    await use(budgets, "a", ANN, 50)
    assert await reserve(budgets, "over", BOB, 40) is None
    await server.pass_time(server.later("midnight"))
    assert await reserve(budgets, "c", CYD, 61) == HELD
    assert await reserve(budgets, "c", CYD, 60) is None
    await budgets.settle_tokens("over", BOB, 40, complete=True)
    assert await reserve(budgets, "d", ANN, 1) == HELD
    assert (await look(server)).total == 100


async def test_a_limit_that_was_lowered_counts_portions_of_yesterday_no_more(
    server: Server, budgets: RedisBudgets
) -> None:
    limits = Budgets(all=1000)
    for name, who in (("a", ANN), ("b", BOB)):
        await use(budgets, name, who, 60, limits=limits)
        assert await reserve(budgets, f"{name}2", who, 400, limits) is None
        await budgets.settle_tokens(f"{name}2", who, 0, complete=True)
    lower = process(server)
    # What was granted already is taken back before anything is set aside.
    assert await reserve(lower, "c", ANN, 1) == USED
    await server.pass_time(server.later("midnight"))
    assert await reserve(lower, "d", ANN, 60) is None
    assert await reserve(lower, "e", BOB, 60) == HELD
    assert await reserve(lower, "e", BOB, 40) is None


@pytest.mark.parametrize("before", [None, 1000])
async def test_what_was_used_without_a_limit_for_all_counts_under_it(
    server: Server, budgets: RedisBudgets, before: int | None
) -> None:
    """Also by an account that had a portion before the limit was taken away."""
    if before:
        await use(budgets, "first", ANN, 5, limits=Budgets(all=before))
    await use(budgets, "a", ANN, 70, limits=Budgets(person=100))
    anew = process(server)
    assert await reserve(anew, "b", BOB, 40) == USED
    assert await reserve(anew, "b", BOB, 25) is None
    # The same process counts it too, where its own limit comes and goes.
    await anew.settle_tokens("b", BOB, 0, complete=True)
    await use(anew, "c", CYD, 20, limits=Budgets(person=100))
    assert await reserve(anew, "d", BOB, 11) == USED


async def test_a_script_that_refuses_writes_nothing_on_a_new_day_too(server: Server, budgets: RedisBudgets) -> None:
    await use(budgets, "a", ANN, 5)
    keys = (budget_keys(A).spent, budget_keys(A).spending, GRANTS)
    for _ in range(2):
        before = await server.connection.commands(*(("DUMP", key) for key in keys))
        short = {"id": "b", "op": "o", "life": LIFE, "tokens": 5, "pool": "PUBLIC"}
        assert (await run(budgets, Script.RESERVE_TOKENS, A, **short, most=4))[0] == "short"
        assert (await run(budgets, Script.RESERVE_TOKENS, A, **short | {"tokens": 999}, leased=True))[0] == "need"
        assert (await run(budgets, Script.RECALL_TOKENS, A, number=0))[0] == "newer"
        stated = {"account": A, "number": 99, "used": 0, "day": 1, "wanted": 101}
        assert (await run(budgets, Script.LOWER_GRANT, A, **stated))[0] == "moved"
        assert (await run(budgets, Script.GRANT_TOKENS, A, **stated, tokens=101, part=1, most=100))[0] == "short"
        assert await server.connection.commands(*(("DUMP", key) for key in keys)) == before
        await server.pass_time(server.later("midnight"))


async def test_accounts_are_noted_each_day_and_forgotten_when_nothing_is_kept_of_them(
    server: Server, budgets: RedisBudgets
) -> None:
    limits = Budgets(person=100)
    for number in range(2):
        await use(budgets, f"a{number}", ANN, 5, limits=limits)
        assert server.asked.count("SADD") == 1
    await server.connection.commands(("SADD", SPENDERS, person_account("gone")))
    assert [one.name for one in await budgets.spent_today()] == ["ann"]
    assert await server.connection.commands(("SMEMBERS", SPENDERS)) == [[A.encode()]]
    (left,) = await server.connection.commands(("TTL", SPENDERS))
    assert 2 * 86_400 - 60 < left <= 2 * 86_400
    # A hint that was lost comes back with the next day, and is missed in lists until then.
    await server.connection.commands(("DEL", SPENDERS))
    assert await budgets.spent_today() == ()
    await server.pass_time(server.later("midnight"))
    await use(budgets, "b", ANN, 5, limits=limits)
    assert [(one.name, one.tokens) for one in await budgets.spent_today()] == [("ann", 5)]


async def test_an_account_that_is_used_while_it_is_forgotten_is_noted_again(
    server: Server, budgets: RedisBudgets
) -> None:
    await use(budgets, "a", ANN, 5, limits=Budgets(person=100))
    await budgets._forget([A, B])
    assert await server.connection.commands(("SMEMBERS", SPENDERS)) == [[A.encode()]]
