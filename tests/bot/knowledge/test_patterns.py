"""Patterns: what counts as similar, how they are called, and what a draft is made of."""

# pyright: reportPrivateUsage=false

import time
from dataclasses import replace
from itertools import permutations
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.errors import NotFoundError, RequestError
from bot.knowledge.keeper import Learner, MemoryKeeper
from bot.knowledge.patterns import LOOKED_AT, MemoryPattern, Patterns, patterns
from bot.knowledge.recall import KnowledgeSearch
from bot.knowledge.skill_keeper import Decided, SkillKeeper
from bot.knowledge.skill_search import SkillSearch
from bot.sessions.knowledge.memories import Memory
from bot.sessions.knowledge.skills import LONGEST_SKILL, LONGEST_STEP, SkillDeed, SkillState, digest
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP
from tests.store.world import fresh

NOW: Final = 1_795_775_400_000
NOTES: Final = (
    "Meeting notes go to the wiki after each sync",
    "After the sync, put the meeting notes into the wiki",
    "Notes of meetings belong into the wiki",
)


def memories(*texts: str, domain: str = "", label: Label = PUBLIC) -> tuple[Memory, ...]:
    """Return memories; their ids are their places, and each is later than the one before."""
    return tuple(Memory(str(n), "ann", label, text, NOW + n, "ann", domain) for n, text in enumerate(texts))


def told(found: tuple[MemoryPattern, ...]) -> list[tuple[str, str]]:
    return [(one.name, one.observations if not one.detected else "detected") for one in found]


def test_a_pattern_emerges_and_is_detected_from_three_similar_memories() -> None:
    made = memories(*NOTES)
    assert told(patterns(made[:1])) == [("meeting-notes-wiki", "1/3")]
    assert told(patterns(made[:2])) == [("meeting-notes-wiki", "2/3")]
    assert told(patterns(made)) == [("meeting-notes-wiki", "detected")]
    assert patterns(made)[0].sources == ("0", "1", "2")
    assert patterns(()) == ()


def test_memories_in_any_order_make_the_same_patterns() -> None:
    made = memories(*NOTES, "The ferry leaves at nine")
    assert len({patterns(some) for some in permutations(made)}) == 1


def test_half_of_the_words_are_to_be_the_same() -> None:
    half = memories("alpha beta gamma delta", "alpha beta epsilon zeta")
    assert told(patterns(half)) == [("alpha-beta", "2/3")]
    fewer = memories("alpha beta gamma delta", "alpha beta epsilon zeta eta")
    assert told(patterns(fewer)) == [("alpha-beta-epsilon", "1/3")]
    # One word alone is none, however few there are.
    assert told(patterns(memories("alpha", "alpha", "alpha"))) == [("alpha", "1/3")]


def test_what_is_about_another_thing_is_not_similar() -> None:
    office, home = memories(*NOTES[:2], domain="office"), memories("x", "y", *NOTES[2:])[2:]
    assert [(one.name, one.domain, one.observations) for one in patterns((*office, *home))] == [
        ("meeting-notes-wiki", "office", "2/3"),
        ("notes-meetings-belong", "", "1/3"),
    ]


def test_one_alone_counts_while_it_is_the_newest_of_its_domain() -> None:
    made = memories("The ferry leaves at nine", "Tickets cost eleven euro")
    assert told(patterns(made)) == [("tickets-cost-eleven", "1/3")]
    assert told(patterns((*made, *memories("a", "b", "The moon is full")[2:]))) == [("moon-full", "1/3")]


def test_the_largest_and_then_the_newest_goes_first() -> None:
    lines = ("ferry leaves harbor", "train leaves station", "tea costs money")
    made = memories(*(lines[place] for place in (0, 0, 1, 1, 0, 2)))
    assert told(patterns(made)) == [
        ("ferry-leaves-harbor", "detected"),
        ("train-leaves-station", "2/3"),
        ("tea-costs-money", "1/3"),
    ]


def test_two_patterns_have_two_names() -> None:
    made = memories("ferry harbor timetable", "x", "ferry harbor timetable")
    other = tuple(replace(one, id=f"o{one.id}", domain="office") for one in made)
    names = [one.name for one in patterns((made[0], made[2], other[0], other[2]))]
    assert sorted(names) == ["ferry-harbor-timetable", "ferry-harbor-timetable-2"]


def test_a_name_has_no_more_than_words() -> None:
    (one,) = patterns(memories(f"<b>`rm -rf`</b> {'y' * 90} [Pay](http://evil.example)"))
    assert one.name == f"{'y' * 24}-pay-http"
    assert patterns(memories("!!! 42 of the")) == ()


def test_a_pattern_is_labelled_as_all_its_sources() -> None:
    made = memories(*NOTES)
    labels = (parse("INTERNAL"), parse("PUBLIC{hr}"), DIRTY)
    (one,) = patterns(tuple(replace(m, label=label) for m, label in zip(made, labels, strict=True)))
    assert one.label == parse("INTERNAL{hr}~")


@given(st.lists(st.tuples(st.text(max_size=40), st.sampled_from(("", "a"))), max_size=12))
def test_each_memory_is_of_one_pattern_at_most(given: list[tuple[str, str]]) -> None:
    made = [Memory(str(n), "ann", PUBLIC, text, NOW, "ann", domain) for n, (text, domain) in enumerate(given)]
    found = patterns(made)
    sources = [source for one in found for source in one.sources]
    assert len(set(sources)) == len(sources)
    assert len({one.name for one in found}) == len(found)
    assert found == patterns(made[::-1])


def test_patterns_among_a_hundred_memories_are_cheap() -> None:
    words = [f"word{number:03}" for number in range(200)]
    made = memories(*(" ".join(words[(7 * n + 3 * k) % 200] for k in range(25)) for n in range(LOOKED_AT)))
    patterns(made)
    begin = time.process_time()
    for _ in range(5):
        patterns(made)
    # Of the processor's time, which a stalled machine does not use up. Measured 4 ms; the bench has the bound.
    assert (time.process_time() - begin) / 5 < 0.1


# On a real store ---------------------------------------------------------------------------------------


class World:
    """A principal with memories, each learned a moment after the one before."""

    def __init__(self, store: RedisStore) -> None:
        self.who, self.now = fresh(), NOW
        self.memories = MemoryKeeper(store.memories, now=self.tick, most=1_000)
        self.search = KnowledgeSearch(store.memories)
        self.skills = SkillKeeper(store.skills, now=self.tick, most=2)
        self.found = SkillSearch(store.skills)
        self.patterns = Patterns(self.search, self.found, self.skills)

    def tick(self) -> int:
        self.now += 1
        return self.now

    def by(self, label: Label = PUBLIC, reader: Label = TOP) -> Learner:
        return Learner(self.who, "ann", label, reader)

    async def learn(self, *texts: str, label: Label = PUBLIC, domain: str = "") -> list[Memory]:
        return [await self.memories.learn(self.by(label), text, fresh(), domain=domain) for text in texts]

    async def known(self, reader: Label = TOP, domain: str = "") -> list[tuple[str, str]]:
        return told(await self.patterns.known(self.who, reader, domain))


@pytest.fixture
def world(store: RedisStore) -> World:
    return World(store)


pytestmark = pytest.mark.anyio


async def test_a_reader_sees_the_pattern_that_its_own_memories_make(world: World) -> None:
    await world.learn(NOTES[0])
    await world.learn(*NOTES[1:], label=CONFIDENTIAL)
    assert await world.known() == [("meeting-notes-wiki", "detected")]
    assert await world.known(INTERNAL) == [("meeting-notes-wiki", "1/3")]
    for reader, label in ((TOP, CONFIDENTIAL), (INTERNAL, PUBLIC)):
        (one,) = await world.patterns.known(world.who, reader)
        assert one.label == label
    assert await world.patterns.named(world.who, TOP, one.name) != one
    with pytest.raises(NotFoundError):
        await world.patterns.named(world.who, TOP, "ferry")


async def test_what_changed_a_moment_ago_counts_at_once(world: World) -> None:
    first, second = await world.learn(*NOTES[:2])
    assert await world.known() == [("meeting-notes-wiki", "2/3")]
    await world.memories.correct(world.by(), second.id, "The ferry leaves the harbor", fresh())
    assert await world.known() == [("ferry-leaves-harbor", "1/3")]
    await world.memories.forget(world.who, TOP, first.id, actor="ann")
    await world.learn(*NOTES)
    assert await world.known() == [("meeting-notes-wiki", "detected")]


async def test_a_domain_has_its_own_patterns_and_those_of_none(world: World) -> None:
    await world.learn(*NOTES[:2], domain="office")
    await world.learn("ferry leaves harbor", "ferry leaves harbor now")
    await world.learn("train leaves station", domain="travel")
    assert await world.known(domain="office") == [("ferry-leaves-harbor", "2/3"), ("meeting-notes-wiki", "2/3")]
    assert len(await world.known()) == 3


async def test_a_detected_pattern_makes_a_draft(world: World) -> None:
    await world.learn("Ann's  notes\n2. are long", *NOTES[1:], label=INTERNAL)
    await world.learn(NOTES[0], label=DIRTY)
    (pattern, *_) = await world.patterns.known(world.who, TOP)
    key = fresh()
    skill = await world.patterns.generate(world.by(PUBLIC), pattern, key)
    assert (skill.state, skill.label, skill.latest.label) == (SkillState.DRAFT, INTERNAL, parse("INTERNAL~"))
    assert skill.latest.text.steps == (*NOTES[1:], NOTES[0])
    assert (skill.latest.text.name, skill.latest.sources) == (pattern.name, pattern.sources)
    assert await world.patterns.generate(world.by(PUBLIC), pattern, key) == skill
    assert (await world.skills.history(world.who, TOP, skill.id))[0].do is SkillDeed.GENERATED
    # What is above the sources is of the draft, too, and a person's approval makes it TRUSTED.
    higher = await world.patterns.generate(world.by(CONFIDENTIAL), pattern, fresh())
    assert higher.label == CONFIDENTIAL
    decided = Decided(1, digest(skill.latest.text))
    approved = await world.skills.approve(world.who, TOP, skill.id, decided=decided, actor="ann")
    assert approved.shown.told == INTERNAL


async def test_a_pattern_that_has_a_skill_tells_so(world: World) -> None:
    await world.learn(*NOTES)
    await world.learn("notes of meetings belong into the wiki now", label=CONFIDENTIAL)
    (low,) = await world.patterns.known(world.who, PUBLIC)
    assert low.skill == ""
    (pattern,) = await world.patterns.known(world.who, TOP)
    high = await world.patterns.generate(world.by(CONFIDENTIAL), pattern, fresh())
    (known,) = await world.patterns.known(world.who, TOP)
    assert known.skill == high.id
    # Below nothing of that skill is known.
    assert await world.patterns.known(world.who, PUBLIC) == (low,)


async def test_an_emerging_pattern_makes_none(world: World) -> None:
    await world.learn(*NOTES[:2])
    (pattern,) = await world.patterns.known(world.who, TOP)
    with pytest.raises(RequestError, match=r"the pattern `meeting-notes-wiki` is emerging: 2/3 observations"):
        await world.patterns.generate(world.by(), pattern, fresh())


async def test_sources_that_are_gone_make_none(world: World) -> None:
    (first, *_) = await world.learn(*NOTES)
    (pattern,) = await world.patterns.known(world.who, TOP)
    await world.memories.forget(world.who, TOP, first.id, actor="ann")
    with pytest.raises(NotFoundError):
        await world.patterns.generate(world.by(), pattern, fresh())
    assert (await world.skills.listed(world.who, TOP)).skills == ()


async def test_a_draft_of_many_long_memories_is_no_longer_than_a_skill(world: World) -> None:
    await world.learn(*(f"{'alpha beta gamma ' * 60}{number}" for number in range(8)))
    (pattern,) = await world.patterns.known(world.who, TOP)
    skill = await world.patterns.generate(world.by(), pattern, fresh())
    assert [len(step) for step in skill.latest.text.steps] == [LONGEST_STEP] * 5
    assert all(step.endswith(" …") for step in skill.latest.text.steps)
    assert 5 * LONGEST_STEP < LONGEST_SKILL


async def test_only_the_newest_are_looked_at(world: World) -> None:
    await world.learn(*NOTES)
    await world.learn(*(f"{chr(97 + n % 26) * 4}{chr(97 + n // 26) * 4} thing{n}x" for n in range(LOOKED_AT - 2)))
    assert ("meeting-notes-wiki", "2/3") in await world.known()


async def test_not_all_answers_are_remembered(world: World) -> None:
    await world.learn(*NOTES)
    for number in range(300):
        assert await world.known(domain=str(number)) == [("meeting-notes-wiki", "detected")]
    assert len(world.patterns._known) == 256
