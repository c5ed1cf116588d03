"""What knowledge asks of the store, for the test of a lost reply: each prepares a call, and returns it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from bot.sessions.knowledge.skills import Outcome, Reflection, SkillDeed, SkillState
from bot.sessions.ports.workflows import WorkflowPlace, WorkflowView
from bot.store.redis_store import RedisStore
from bot.store.scripts.loader import Script
from policy.labels import PUBLIC
from tests.store.world import done, fresh, happened, learned, row, skilled

Act = Callable[[RedisStore], Awaitable[object]]


async def _learning(_store: RedisStore) -> Act:
    made = learned(fresh())

    async def act(store: RedisStore) -> object:
        """Learn where one may be kept: the first, whose answer is lost, is that one."""
        return (await store.memories.learn(made, 1, (row(),))).text

    return act


async def _correcting(store: RedisStore) -> Act:
    made = learned(fresh())
    await store.memories.learn(made, 2, ())
    newer = replace(learned(made.principal), corrects=made.id)

    async def act(store: RedisStore) -> object:
        kept = await store.memories.learn(newer, 2, (row(),))
        return kept.text, [one.state for one in (await store.memories.changes(made.principal, PUBLIC, 0, 9)).changed]

    return act


async def _forgetting(store: RedisStore) -> Act:
    made = learned(fresh())
    await store.memories.learn(made, 1, ())
    return lambda store: store.memories.forget(made, (row(),))


async def _counting(_store: RedisStore) -> Act:
    who = fresh()

    async def act(store: RedisStore) -> object:
        await store.memories.count_use(who, PUBLIC, ["mem_1", "mem_2"], fresh())
        return await store.memories.uses(who, (PUBLIC,), ["mem_1", "mem_2"])

    return act


async def _creating(_store: RedisStore) -> Act:
    made = skilled(fresh())

    async def act(store: RedisStore) -> object:
        kept = await store.skills.create(made, done(), 1, (row(),))
        return kept == made, await store.skills.history(made)

    return act


async def _updating(store: RedisStore) -> Act:
    made = skilled(fresh())
    await store.skills.create(made, done(), 1, ())
    newer = replace(made, state=SkillState.ACTIVE, current=1, revision=2)

    async def act(store: RedisStore) -> object:
        """Change it as the revision says: the second try must not find that another change came first."""
        changed = await store.skills.change(newer, done(SkillDeed.APPROVED), (row(),))
        return changed, await store.skills.history(made)

    return act


async def _reflecting(_store: RedisStore) -> Act:
    who = fresh()

    async def act(store: RedisStore) -> object:
        await store.skills.reflect(who, "skill_1", Reflection(5, Outcome.SUCCESS, PUBLIC, "well"), fresh())
        noted = await store.skills.notes(who, (PUBLIC,), "skill_1")
        return await store.skills.rates(who, (PUBLIC,), ["skill_1"]), noted

    return act


async def _advancing(store: RedisStore) -> Act:
    place, first = WorkflowPlace(fresh(), "quay", PUBLIC), happened()
    await store.workflows.advance(place, WorkflowView(PUBLIC, {}), (first,), ())
    event = happened()

    async def act(store: RedisStore) -> object:
        """Write where one event was seen: the second try must not find its own."""
        kept = await store.workflows.advance(place, WorkflowView(PUBLIC, {PUBLIC: 1}), (event,), (row(),))
        log = await store.workflows.log(place.principal, place.project, lambda _: True)
        return kept is not None, [(one.order, one.body) for one in log]

    return act


KNOWLEDGE_CASES: Final[tuple[tuple[Script, Callable[[RedisStore], Awaitable[Act]]], ...]] = (
    (Script.LEARN, _learning),
    (Script.LEARN, _correcting),
    (Script.FORGET, _forgetting),
    (Script.COUNT_USE, _counting),
    (Script.PUT_SKILL, _creating),
    (Script.PUT_SKILL, _updating),
    (Script.REFLECT, _reflecting),
    (Script.ADVANCE_WORKFLOW, _advancing),
)
"""Script → what prepares a call of it."""
