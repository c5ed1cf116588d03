"""What models were used for: by a conversation, and, where there are budgets, in a day.

What was used today is counted as far as sessions go that whoever asks may know of (law `no_read_up`). A person sees his
own, and a shared chat's in that chat; an admin sees everybody's. Both have their tokens of a day for each level.
"""

from collections.abc import Iterable
from typing import Final

from bot.access import principals
from bot.commands.base import CommandContext, Reply, UsageError
from bot.sessions.budgets import Spent, Whose
from bot.sessions.models import SessionState, Usage
from policy.labels import PUBLIC, Label, join_all

NOT_COUNTED: Final = "no limit of a day is configured, so nothing is counted by the day"
AS_FAR: Final = "as far as may be told here"

_MOST: Final = 20


async def usage(context: CommandContext, argument: str) -> Reply:
    """Tell what the session and its last turn used, and what the person and the chat did today."""
    state = await context.state()
    match argument.split():
        case []:
            told = [*_conversation(state)]
            today = await _today(context, state)
            told += _own(context, today, shared=await context.in_shared_chat())
        case ["all"]:
            today = await _today(context, state)
            return Reply("\n".join(_everybody(context, today)), _label(today))
        case _:
            raise UsageError("")
    return Reply("\n".join(told), _label(today) if state is None else state.visibility.join(_label(today)))


def described(used: Usage) -> str:
    """Return usage in words; what is not known is said to be unknown, and is never counted as nothing."""
    known = "" if used.complete else ", not all of it known"
    requests = f"{used.requests} model {'request' if used.requests == 1 else 'requests'}"
    return f"{requests}, {used.input_tokens} tokens in, {used.output_tokens} out{known}, cost {_cost(used)}"


def _conversation(state: SessionState | None) -> Iterable[str]:
    if state is None:
        yield "this conversation has not begun, it has used nothing"
        return
    yield f"in all {described(state.usage)}"
    if state.last_turn is not None:
        yield f"last turn {described(state.last_turn.usage)}"


async def _today(context: CommandContext, state: SessionState | None) -> tuple[Spent, ...]:
    """Return what was used today, as far as the caller may know of it."""
    reader = (await context.standing(state)).reader
    return tuple(spent for spent in await context.budget.spent() if spent.label.flows_to(reader))


def _own(context: CommandContext, today: tuple[Spent, ...], *, shared: bool) -> Iterable[str]:
    limits = context.budget.limits
    if not limits.kept:
        return
    mine = [spent for spent in today if (spent.whose, spent.name) == (Whose.PERSON, context.caller.principal)]
    yield f"you used {_amount(mine, limits.person)} today, {AS_FAR}"
    if shared:
        name = principals.of_chat(context.address)
        here = [spent for spent in today if (spent.whose, spent.name) == (Whose.CHAT, name)]
        yield f"this chat used {_amount(here, limits.chat)} today, {AS_FAR}"


def _everybody(context: CommandContext, today: tuple[Spent, ...]) -> Iterable[str]:
    limits = context.budget.limits
    if not limits.kept:
        yield NOT_COUNTED
        return
    people = [spent for spent in today if spent.whose is Whose.PERSON]
    yield f"all used {_total(people, limits.all)} today, {AS_FAR}"
    yield from _ranked(people, limits.person)
    yield from _ranked([spent for spent in today if spent.whose is Whose.CHAT], limits.chat)


def _ranked(today: list[Spent], limit: int | None) -> Iterable[str]:
    """Yield those who used most, the first ones first."""
    by_name: dict[str, list[Spent]] = {}
    for spent in today:
        by_name.setdefault(spent.name, []).append(spent)
    first = sorted(by_name.items(), key=lambda item: (-sum(spent.tokens for spent in item[1]), item[0]))
    for name, spent in first[:_MOST]:
        yield f"  {principals.address(name) if principals.is_chat(name) else name}: {_amount(spent, limit)}"
    if len(first) > _MOST:
        yield f"  and {len(first) - _MOST} more"


def _amount(spent: list[Spent], limit: int | None) -> str:
    """Return what was used in words; where there is a limit, for each of the levels that it is for."""
    pools = sorted({one.label for one in spent}, key=lambda pool: (pool.level, str(pool)))
    if limit is None or pools in ([], [PUBLIC]):
        return _total(spent, limit)
    return ", ".join(f"{_total([one for one in spent if one.label == pool], limit)} for {pool}" for pool in pools)


def _total(spent: list[Spent], limit: int | None) -> str:
    known = "" if all(one.complete for one in spent) else ", not all of it known,"
    most = "" if limit is None else f" of {limit}"
    return f"{sum(one.tokens for one in spent)}{most} tokens{known}"


def _label(today: Iterable[Spent]) -> Label:
    return join_all(spent.label for spent in today)


def _cost(used: Usage) -> str:
    # Cost is counted in millionths.
    amount = f"{used.cost / 1_000_000:.6f}".rstrip("0").rstrip(".")
    if used.priced:
        return amount
    return f"at least {amount}" if used.cost else "unknown"
