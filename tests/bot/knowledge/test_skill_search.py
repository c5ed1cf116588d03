"""Skills that fit a task, on a real store: what a reader may know of, as it is now."""

from dataclasses import replace
from typing import Final

import pytest

from bot.knowledge.keeper import Learner
from bot.knowledge.skill_keeper import Decided, SkillEdit, SkillKeeper
from bot.knowledge.skill_search import MOST_WEIGHT, SkillSearch
from bot.sessions.knowledge.skills import Skill, SkillText, digest
from bot.store.redis_store import RedisStore
from bot.store.schema import skill_keys
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, INTERNAL, TOP
from tests.bot.knowledge.watched import WatchedSkills
from tests.store.world import command, fresh

pytestmark = pytest.mark.anyio

NOW: Final = 1_795_775_400_000
REPORT: Final = SkillText(
    "Weekly Client Report",
    "Report what clients paid.",
    "client-reporting",
    (
        "Ask who is to read it.",
        "Pull metrics from the dashboard, format them as a table",
        "Send the report to clients",
    ),
)
TEA: Final = SkillText("Tea", "", "", ("Boil water.", "Pour it over the leaves."))


class World:
    """A principal with skills; each is kept a moment after the one before."""

    def __init__(self, store: RedisStore) -> None:
        self.who, self.now = fresh(), NOW
        self.keeper = SkillKeeper(store.skills, now=self.tick, most=1_000)
        self.watched = WatchedSkills(store.skills)
        self.search = SkillSearch(self.watched)

    def tick(self) -> int:
        self.now += 1
        return self.now

    async def draft(self, text: SkillText, label: Label = PUBLIC) -> Skill:
        return await self.keeper.create(Learner(self.who, "ann", label, TOP), text, fresh())

    async def active(self, text: SkillText, label: Label = PUBLIC) -> Skill:
        return await self.approved(await self.draft(text, label))

    async def approved(self, skill: Skill) -> Skill:
        decided = Decided(skill.latest.number, digest(skill.latest.text))
        return await self.keeper.approve(self.who, TOP, skill.id, decided=decided, actor="ann")

    async def fitting(
        self, task: str, reader: Label = TOP, domain: str = "", limit: int = 9
    ) -> list[tuple[str, int | None]]:
        found = await self.search.fitting(self.who, reader, task, domain=domain, limit=limit)
        return [(one.version.text.name, one.step) for one in found]

    async def in_force(self, reader: Label = TOP, domain: str = "", limit: int = 9) -> list[Skill]:
        found = await self.search.active(self.who, reader, domain=domain, limit=limit)
        assert not any(one.step for one in found)
        return [one.skill for one in found]


async def test_the_step_that_fits_a_task_is_named(store: RedisStore) -> None:
    world = World(store)
    await world.active(REPORT)
    await world.active(TEA)
    assert await world.fitting("Draft the Q1 metrics section of the client report") == [("Weekly Client Report", 2)]
    assert await world.fitting("boiling") == [("Tea", 1)]
    assert await world.fitting("leaves, paid") == [("Tea", 2), ("Weekly Client Report", None)]
    for nothing in ("", "the of and", "unheard"):
        assert await world.fitting(nothing) == []


async def test_what_has_more_of_the_task_goes_first(store: RedisStore) -> None:
    world = World(store)
    named = SkillText("Harbor", "", "", ("x", "y"))
    told = SkillText("One", "Harbor.", "", ("x",))
    step = SkillText("Two", "", "", ("x", "Go to the harbor.", "The harbor."))
    for text in (told, step, named):
        await world.active(text)
    # Of two that fit as well the one that changed last is first.
    assert await world.fitting("harbor") == [("Harbor", None), ("Two", 2), ("One", None)]
    assert await world.fitting("harbor", limit=1) == [("Harbor", None)]


async def test_only_what_is_in_force_is_found_and_as_it_is_now(store: RedisStore) -> None:
    world = World(store)
    draft = await world.draft(TEA)
    assert (await world.in_force(), await world.fitting("water")) == ([], [])
    assert await world.search.known(world.who, TOP) == (draft,)
    skill = await world.approved(draft)
    assert await world.in_force() == [skill]
    by = Learner(world.who, "ann", PUBLIC, TOP)
    later = await world.keeper.update(by, skill.id, SkillEdit("Tea", ("Grind coffee.",)), fresh())
    assert (await world.fitting("water"), await world.fitting("coffee")) == ([("Tea", 1)], [])
    await world.approved(later)
    assert await world.fitting("coffee") == [("Tea", 1)]
    await world.keeper.deprecate(world.who, TOP, skill.id, "ann")
    assert (await world.in_force(), await world.fitting("coffee")) == ([], [])


async def test_what_is_above_a_reader_is_not_even_looked_at(store: RedisStore) -> None:
    world = World(store)
    low, high = await world.active(TEA, INTERNAL), await world.active(replace(TEA, name="Above"), CONFIDENTIAL)
    assert await world.in_force(PUBLIC) == []
    assert world.watched.calls == ["versions"]
    assert await world.in_force(INTERNAL) == [low]
    assert "changes CONFIDENTIAL" not in world.watched.calls
    assert await world.in_force(CONFIDENTIAL) == [high, low]
    assert await world.fitting("water", INTERNAL) == [("Tea", 1)]


async def test_a_domain_has_its_own_skills_and_those_about_anything(store: RedisStore) -> None:
    world = World(store)
    report, tea = await world.active(REPORT), await world.active(TEA)
    assert await world.in_force(domain="client-reporting") == [tea, report]
    assert await world.in_force(domain="kitchen") == [tea]
    assert await world.in_force(limit=1) == [tea]
    assert await world.fitting("clients", domain="kitchen") == []


async def test_what_did_not_change_is_not_read_again(store: RedisStore) -> None:
    world = World(store)
    skills = [await world.active(replace(TEA, name=f"Tea {number}")) for number in range(105)]
    assert await world.search.known(world.who, TOP) == tuple(skills[::-1])
    assert world.watched.calls.count("changes PUBLIC") == 2
    assert len(await world.in_force(limit=999)) == 105
    assert world.watched.calls.count("changes PUBLIC") == 2
    await world.keeper.deprecate(world.who, TOP, skills[0].id, "ann")
    assert len(await world.in_force(limit=999)) == 104
    assert world.watched.calls.count("changes PUBLIC") == 3


async def test_an_old_version_that_is_told_late_changes_nothing(store: RedisStore) -> None:
    world = World(store)
    await world.active(TEA)
    old = await store.skills.versions(world.who)
    skill = await world.active(REPORT)
    assert len(await world.in_force()) == 2
    world.watched.old = old
    assert len(await world.in_force()) == 2
    # A store that was restored from a backup, or another server, knows no more of the last changes.
    keys = skill_keys(world.who, "PUBLIC")
    await command(store, "HSET", keys.versions, "PUBLIC", old[PUBLIC])
    await command(store, "ZREM", keys.changed, skill.id)
    await command(store, "HDEL", keys.skills, skill.id)
    assert [one.shown.text.name for one in await world.in_force()] == ["Tea"]


async def test_the_skills_of_labels_that_were_not_asked_for_longest_are_left(store: RedisStore) -> None:
    world = World(store)
    for label in (PUBLIC, INTERNAL, CONFIDENTIAL):
        await world.active(TEA, label)
    await world.in_force()
    weight = world.search.weight
    assert 0 < weight < 1_000 < MOST_WEIGHT
    for most, kept in ((weight, 3), (weight - 1, 2), (1, 1)):
        search = SkillSearch(world.watched, most=most)
        assert len(await search.active(world.who, TOP, limit=9)) == 3
        assert search.weight == weight * kept // 3
        world.watched.calls.clear()
        await search.active(world.who, TOP, limit=9)
        assert ("changes CONFIDENTIAL" in world.watched.calls) == (kept < 3)
