"""`/model` and `/usage`: the models of a conversation, switching to another, and the use of models.

A model's clearance is shown as far as the caller may know it. A switch is decided like a request to that model with the
context as it is (law `read_is_decided_before_it_happens`).

Today's usage is counted over the sessions that the caller may know of (law `no_read_up`). People see their own, and a
shared chat's in that chat; an admin sees all of it. Both have their tokens of a day for each level.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from bot.access import principals
from bot.access.agents import AgentSnapshot
from bot.access.authorize import at_least
from bot.budgets import Budget
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.config.model import Config
from bot.core.ids import Ids
from bot.gate.gate import Gate
from bot.gate.results import decision_row
from bot.pinned_agents import ANEW, subject
from bot.sessions.budgets import Spent, Whose
from bot.sessions.models import Claim, SessionState, Write
from bot.sessions.ports.sessions import LifecycleStore, SessionStore
from bot.sessions.usage import Usage
from policy.decision import Verdict
from policy.errors import nearest
from policy.labels import PUBLIC, Label, join_all
from policy.request import Hook, Role

NOT_BEGUN: Final = "This conversation has not begun, say something first."
NOT_HERE: Final = "In a shared chat another model needs the role approver."

_LONGEST: Final = 80


@dataclass(frozen=True, slots=True)
class ModelCommands:
    """Show and switch models, and tell their usage."""

    sessions: SessionStore
    lifecycle: LifecycleStore
    gate: Gate
    ids: Ids
    budget: Budget
    config: Config

    async def model(self, request: CommandRequest, argument: str) -> Reply:
        """Show the models of this conversation, or have it think with another one."""
        match argument.split():
            case []:
                return await self._shown(request)
            case [name]:
                return await self._switched(request, name)
            case _:
                raise UsageError("")

    async def _shown(self, request: CommandRequest) -> Reply:
        state = await request.state()
        agent = await _usable(request, state)
        standing = replace(await request.standing(state), agent=agent)
        first, document = self.gate.requests.model(standing), self.gate.document
        fallback = [name for name in agent.models[1:] if name != first]

        def line(name: str, how: str) -> str:
            return f"{how} {name}, which may read {document.provider(name).meet(standing.reader)} of your clearance"

        lines = [
            line(first, "This conversation thinks with"),
            *(line(name, "- if that does not answer") for name in fallback),
        ]
        others = [name for name in self.config.model.all if name != first]
        lines += [line(name, f"- with `/model {name}` with") for name in others]
        return Reply("\n".join(lines), PUBLIC if state is None else state.visibility)

    async def _switched(self, request: CommandRequest, name: str) -> Reply:
        state = await request.state()
        usual = (await _usable(request, state)).models[0]
        known = (usual, *self.config.model.all)
        if name not in known:
            raise CommandError(
                f"there is no model `{name[:_LONGEST]}`{nearest(name, known)}", next_step="`/model` lists the models"
            )
        if await request.in_shared_chat() and not at_least(request.caller.role, Role.APPROVER):
            raise CommandError(NOT_HERE)
        if state is None:
            raise CommandError(NOT_BEGUN)
        if self.gate.requests.model(await request.standing(state)) == name:
            return Reply(_told(name), state.visibility)
        async with request.claimed(self.ids.owner()) as claim:
            return await self._switched_claimed(request, claim, name, "" if name == usual else name)

    async def _switched_claimed(self, request: CommandRequest, claim: Claim, name: str, chosen: str) -> Reply:
        """Have a conversation think with a model; `chosen` is its name, empty for the first of its agent."""
        state: SessionState = claim.state
        standing = replace(await request.standing(state), model=chosen)
        decision = self.gate.requests.invoke(standing)
        allowed = decision.verdict is Verdict.ALLOW
        row = decision_row(standing, Hook.AGENT_INVOCATION, decision, model=name, cause="/model")
        await self.sessions.record(
            claim,
            Write(op=self.ids.op(), cursor=state.seq, audit=(row,), release=True, model=chosen if allowed else None),
        )
        if not allowed:
            return Reply(request.explained(decision, standing, f"/model {name}"), state.visibility)
        return Reply(_told(name), state.visibility)

    async def _last(self, state: SessionState | None) -> list[str]:
        """Return a line about the usage of the last turn, none before the first of a generation ended."""
        if state is None or state.last_turn is None:
            return []
        page = await self.lifecycle.turns(state.sid, before=state.last_turn.seq + 1, limit=1)
        return [f"Last turn {described(turn.told.usage)}." for turn in page.turns]

    async def usage(self, request: CommandRequest, argument: str) -> Reply:
        """Tell the usage of the session and its last turn, and today's usage of the person and the chat."""
        state = await request.state()
        match argument.split():
            case []:
                told = [*_conversation(state), *await self._last(state)]
                today = await self._today(request, state)
                told += self._own(request, today, shared=await request.in_shared_chat())
            case ["all"]:
                today = await self._today(request, state)
                return Reply("\n".join(self._everybody(today)), _label(today))
            case _:
                raise UsageError("")
        return Reply("\n".join(told), _label(today) if state is None else state.visibility.join(_label(today)))

    async def _today(self, request: CommandRequest, state: SessionState | None) -> tuple[Spent, ...]:
        """Return today's usage, as far as the caller may know of it."""
        reader = (await request.standing(state)).reader
        return tuple(spent for spent in await self.budget.spent() if spent.label.flows_to(reader))

    def _own(self, request: CommandRequest, today: tuple[Spent, ...], *, shared: bool) -> Iterable[str]:
        limits = self.budget.limits
        if not limits.kept:
            return
        mine = [spent for spent in today if (spent.whose, spent.name) == (Whose.PERSON, request.caller.principal)]
        yield f"You used {_amount(mine, limits.person)} today, {AS_FAR}."
        if shared:
            name = principals.of_chat(request.address)
            here = [spent for spent in today if (spent.whose, spent.name) == (Whose.CHAT, name)]
            yield f"This chat used {_amount(here, limits.chat)} today, {AS_FAR}."

    def _everybody(self, today: tuple[Spent, ...]) -> Iterable[str]:
        limits = self.budget.limits
        if not limits.kept:
            yield NOT_COUNTED
            return
        people = [spent for spent in today if spent.whose is Whose.PERSON]
        yield f"All used {_total(people, limits.all)} today, {AS_FAR}."
        yield from _ranked(people, limits.person)
        yield from _ranked([spent for spent in today if spent.whose is Whose.CHAT], limits.chat)


async def _usable(request: CommandRequest, state: SessionState | None) -> AgentSnapshot:
    """Return the agent of a conversation. Raises CommandError: it cannot be read."""
    agent = await request.agent(state)
    if agent.lost:
        raise CommandError(f"{subject(agent)} cannot be read from the store; {ANEW}")
    return agent


def _told(name: str) -> str:
    return f"This conversation thinks with {name}, until it is reset."


NOT_COUNTED: Final = "No limit of a day is configured, so nothing is counted by the day."
AS_FAR: Final = "as far as may be told here"

_MOST: Final = 20


def described(used: Usage) -> str:
    """Return usage in words; an unknown amount is named unknown, and never counted as nothing."""
    known = "" if used.complete else ", not all of it known"
    requests = f"{used.requests} model {'request' if used.requests == 1 else 'requests'}"
    return f"{requests}, {used.input_tokens} tokens in, {used.output_tokens} out{known}, cost {_cost(used)}"


def _conversation(state: SessionState | None) -> Iterable[str]:
    if state is None:
        yield "This conversation has not begun, it has used nothing."
        return
    yield f"in all {described(state.usage)}"


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
    """Return usage in words; where there is a limit, for each level that it applies to."""
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
