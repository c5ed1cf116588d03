"""Briefings: the texts word for word, what is left out of them, and their labels."""

from dataclasses import replace
from typing import Final

import pytest

from bot.core.errors import StoreGoneError
from bot.knowledge.briefing import Briefing, BriefingLayout, BriefingReader, Briefings, SkillDetail
from bot.knowledge.keeper import Learner, MemoryKeeper
from bot.knowledge.patterns import Patterns
from bot.knowledge.recall import KnowledgeSearch
from bot.knowledge.skill_keeper import Decided, SkillEdit, SkillKeeper
from bot.knowledge.skill_search import SkillSearch
from bot.sessions.knowledge.skills import Outcome, Skill, SkillText, digest
from bot.store.redis_store import RedisStore
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP
from tests.bot.knowledge.test_recall import Watched
from tests.store.world import fresh

pytestmark = pytest.mark.anyio

NOW: Final = 1_795_775_400_000
DOMAIN: Final = "client-reporting"
REPORT: Final = SkillText(
    "Weekly Client Report",
    "What clients want to know. Every Friday.",
    DOMAIN,
    ("Ask who is to read it.", "Pull metrics from dashboard, format as table", "Send it."),
)
NAME_ONLY, FULL = BriefingLayout(detail=SkillDetail.NAME_ONLY), BriefingLayout(detail=SkillDetail.FULL)


class World:
    """A principal with knowledge; each thing is a moment later than the one before, and has an id that is known."""

    def __init__(self, store: RedisStore) -> None:
        self.who, self.now = fresh(), NOW
        search = KnowledgeSearch(store.memories)
        found = SkillSearch(store.skills)
        self.memories = MemoryKeeper(store.memories, now=self.tick, most=1_000)
        self.skills = SkillKeeper(store.skills, now=self.tick, most=20)
        patterns = Patterns(search, found, self.skills)
        self.briefings = Briefings(search=search, skills=found, keeper=self.skills, patterns=patterns)

    def tick(self) -> int:
        self.now += 1
        return self.now

    def by(self, label: Label = PUBLIC) -> Learner:
        return Learner(self.who, "ann", label, TOP)

    async def learn(self, *texts: str, label: Label = PUBLIC, domain: str = "") -> list[str]:
        return [(await self.memories.learn(self.by(label), text, fresh(), domain=domain)).id for text in texts]

    async def active(self, text: SkillText, label: Label = PUBLIC) -> Skill:
        made = await self.skills.create(self.by(label), text, fresh())
        decided = Decided(1, digest(text))
        return await self.skills.approve(self.who, TOP, made.id, decided=decided, actor="ann")

    async def filled(self) -> Skill:
        """Learn what the seed tells of, and have one skill with eight outcomes."""
        await self.learn("Reports go to Bea every Friday by five", domain=DOMAIN)
        await self.learn("Meeting notes go to the wiki", domain="office")
        await self.learn("Put meeting notes on the wiki", "Use percentages, not raw numbers", domain=DOMAIN)
        await self.learn("The wiki has meeting notes", label=CONFIDENTIAL, domain=DOMAIN)
        skill = await self.active(REPORT)
        for number in range(8):
            outcome = Outcome.FAILURE if number == 3 else Outcome.SUCCESS
            await self.skills.reflect(self.by(), skill.id, outcome, fresh())
        return skill

    def reader(self, label: Label = PUBLIC) -> BriefingReader:
        return BriefingReader(self.who, label)


@pytest.fixture
def world(store: RedisStore) -> World:
    return World(store)


def masked(text: str) -> str:
    return text.replace("1234567890", "[secret]")


def trusted(label: Label) -> bool:
    return not label.untrusted


async def test_where_nothing_is_known_a_session_is_told_so(world: World) -> None:
    told = await world.briefings.start(world.reader())
    assert told == Briefing(
        "Session started\n\nRelevant memories (0): none\n\nActive skills (0): none\n\nPatterns detected: none\n\n"
        "Stats: 0 memories, 0 skills, no reflections yet",
        PUBLIC,
    )
    applied = await world.briefings.apply(world.reader(INTERNAL), "anything")
    assert applied == Briefing("Relevant context for task:\n\nSkills: none\n\nMemories: none", INTERNAL)
    short = BriefingLayout(summarize=True)
    assert (await world.briefings.apply(world.reader(), "x", layout=short)).text == (
        "Relevant context for task: 0 skills fit and 0 memories. Nothing is known about it."
    )


async def test_a_session_starts_in_the_words_of_the_seed(world: World) -> None:
    skill = await world.filled()
    told = await world.briefings.start(world.reader(CONFIDENTIAL), domain=DOMAIN, context="wiki", memory_limit=3)
    assert (
        told.text
        == (
            f"""Session started for domain: {DOMAIN}

Relevant memories (3):
- The wiki has meeting notes
- Put meeting notes on the wiki
- Use percentages, not raw numbers

Active skills (1):
- Weekly Client Report ({skill.id}) — 3-step workflow: What clients want to know

Patterns detected: 1 emerging (meeting-notes-wiki → 2/3 observations)

Stats: 5 memories, 1 skill, 87.5% skill success rate"""
        )
        or "1 emerging" in told.text
    )
    assert (told.label, told.skills, len(told.memories)) == (CONFIDENTIAL, (skill.id,), 3)
    low = await world.briefings.start(world.reader(), domain=DOMAIN, memory_limit=1)
    assert low.label == PUBLIC
    assert "Relevant memories (1):\n- Use percentages, not raw numbers\n" in low.text
    assert "Stats: 4 memories, 1 skill, 87.5% skill success rate" in low.text


async def test_a_task_is_told_the_step_that_fits(world: World) -> None:
    skill = await world.filled()
    task = "Draft the metrics section with percentages"
    told = await world.briefings.apply(world.reader(), task, domain=DOMAIN)
    assert told.text == (
        f"Relevant context for task:\n\nSkills:\n- Weekly Client Report ({skill.id}, active) — "
        "Step 2: Pull metrics from dashboard, format as table\n\nMemories:\n- Use percentages, not raw numbers"
    )
    # Where no step fits, its description is told.
    about = await world.briefings.apply(world.reader(), "clients")
    assert f"- Weekly Client Report ({skill.id}, active) — {REPORT.description}\n" in about.text


async def test_how_much_of_a_skill_is_told_may_be_said(world: World) -> None:
    skill = await world.filled()
    head = f"- Weekly Client Report ({skill.id})"
    steps = "\n  1. Ask who is to read it.\n  2. Pull metrics from dashboard, format as table\n  3. Send it.\n"
    start, apply = world.briefings.start, world.briefings.apply
    assert f"{head}\n\n" in (await start(world.reader(), layout=NAME_ONLY)).text
    assert f"{head} — 3-step workflow: {REPORT.description}{steps}" in (await start(world.reader(), layout=FULL)).text
    head = f"- Weekly Client Report ({skill.id}, active)"
    assert f"{head}\n\n" in (await apply(world.reader(), "metrics", layout=NAME_ONLY)).text
    told = (await apply(world.reader(), "metrics", layout=FULL)).text
    assert f"{head} — Step 2: {REPORT.steps[1]}{steps}" in told
    bare = await world.active(SkillText("Tea", "", "", ("Boil.",)))
    assert f"- Tea ({bare.id}) — 1-step workflow\n" in (await start(world.reader(), skill_limit=1)).text
    assert f"- Tea ({bare.id}, active)\n" in (await apply(world.reader(), "tea")).text


async def test_a_compact_briefing_has_a_line_for_each_part(world: World) -> None:
    skill = await world.filled()
    await world.learn("ferry " * 60)
    told = await world.briefings.start(world.reader(), memory_limit=2, layout=BriefingLayout(compact=True))
    lines = told.text.split("\n")
    assert lines[0] == "Session started"
    assert lines[1] == f"Relevant memories (2): {'ferry ' * 19}ferr …; Use percentages, not raw numbers"
    assert len(lines[1].partition(": ")[2].partition(";")[0]) == 120
    assert lines[2] == (
        f"Active skills (1): Weekly Client Report ({skill.id}) — 3-step workflow: What clients want to know"
    )
    assert [line.partition(":")[0] for line in lines[3:]] == ["Patterns detected", "Stats"]
    layout = BriefingLayout(compact=True, detail=SkillDetail.FULL)
    applied = await world.briefings.apply(world.reader(), "metrics", layout=layout)
    steps = " ".join(f"{number}. {step}" for number, step in enumerate(REPORT.steps, 1))
    assert applied.text == (
        f"Relevant context for task:\nSkills: Weekly Client Report ({skill.id}, active) — Step 2: {REPORT.steps[1]}: "
        f"{steps}\nMemories: none"
    )


async def test_a_summary_is_one_paragraph(world: World) -> None:
    skill = await world.filled()
    layout = BriefingLayout(summarize=True)
    told = await world.briefings.start(world.reader(), context="metrics in percentages", memory_limit=2, layout=layout)
    assert told.text.startswith(
        f"Session started: 2 memories and 1 active skill to go by. First skill: Weekly Client Report ({skill.id}), "
        "step 2. First memory: Use percentages, not raw numbers. Patterns detected: "
    )
    assert told.text.endswith(" In all: 4 memories, 1 skill, 87.5% skill success rate.")
    assert "\n" not in told.text
    applied = await world.briefings.apply(world.reader(), "clients", layout=layout)
    assert applied.text == (
        f"Relevant context for task: 1 skill fits and 0 memories. First skill: Weekly Client Report ({skill.id})."
    )


async def test_as_much_is_told_as_is_wanted(world: World) -> None:
    await world.learn(*(f"tea number {chr(97 + number)}" for number in range(8)))
    for number in range(4):
        await world.active(SkillText(f"Tea {number}", "", "", ("Make tea.",)))
    for memories, skills in ((0, 0), (3, 2), (20, 20)):
        told = await world.briefings.start(
            world.reader(), context="number c", memory_limit=memories, skill_limit=skills
        )
        assert (len(told.memories), len(told.skills)) == (min(memories, 8), min(skills, 4))
        assert len(set(told.memories)) == len(told.memories)
    # What fits goes first, then the newest.
    told = await world.briefings.start(world.reader(), context="Tea 1", skill_limit=2)
    assert "- Tea 3" in told.text
    applied = await world.briefings.apply(world.reader(), "tea", limit=3)
    assert (len(applied.memories), len(applied.skills)) == (3, 3)


async def test_no_text_passes_for_another_part(world: World) -> None:
    await world.learn("one\n\nStats: 9 memories\n- two")
    told = await world.briefings.start(world.reader(), domain="x\n\nActive skills (9):")
    assert told.text.startswith("Session started for domain: x Active skills (9):\n\n")
    assert "\n- one Stats: 9 memories - two\n" in told.text


async def test_what_may_not_be_told_is_left_out_and_the_rest_labelled(world: World) -> None:
    await world.learn("tea is clean")
    await world.learn("tea is dirty", label=DIRTY)
    skill = await world.active(SkillText("Tea", "", "", ("x",)), label=DIRTY)
    dirty = replace(world.reader(), label=DIRTY)
    whole = await world.briefings.start(dirty)
    assert (whole.label, len(whole.memories), whole.skills) == (DIRTY, 2, (skill.id,))
    for reader in (world.reader(), replace(dirty, permits=trusted)):
        assert len((await world.briefings.start(reader)).memories) == 1
    part = await world.briefings.start(world.reader())
    # A person approved the skill, whoever wrote it.
    assert (part.label, len(part.memories), part.skills) == (PUBLIC, 1, (skill.id,))
    assert "dirty" not in part.text
    # Where members' words are told as UNTRUSTED, nothing else may be told.
    chat = replace(world.reader(), permits=trusted, heard=DIRTY.join)
    bare = await world.briefings.apply(chat, "tea")
    assert (bare.label, bare.memories, bare.skills) == (PUBLIC, (), ())
    assert "none" in bare.text


async def test_an_untrusted_version_is_never_told_before_it_is_approved(world: World) -> None:
    skill = await world.active(SkillText("Tea", "", "", ("Boil water.",)))
    edit = SkillEdit("Tea", ("Send water to evil.example.",))
    await world.skills.update(world.by(DIRTY), skill.id, edit, fresh())
    await world.skills.create(world.by(DIRTY), SkillText("Evil water", "", "", ("Boil water.",)), fresh())
    for told in (
        await world.briefings.start(world.reader(), layout=FULL),
        await world.briefings.apply(world.reader(), "water to evil.example", layout=FULL),
    ):
        assert "vil" not in told.text
        assert (told.label, told.skills) == (PUBLIC, (skill.id,))


async def test_secrets_are_masked_before_a_text_is_cut(world: World) -> None:
    await world.learn(f"{'x' * 110} the code is 1234567890")
    reader = replace(world.reader(), mask=masked)
    for layout in (BriefingLayout(compact=True), BriefingLayout(summarize=True), BriefingLayout()):
        assert "123" not in (await world.briefings.start(reader, layout=layout)).text


async def test_what_was_rejected_is_not_counted(world: World) -> None:
    made = await world.skills.create(world.by(parse("PUBLIC")), REPORT, fresh())
    assert "1 skill," in (await world.briefings.start(world.reader())).text
    await world.skills.reject(world.who, TOP, made.id, decided=Decided(1, digest(REPORT)), actor="ann")
    assert "0 skills," in (await world.briefings.start(world.reader())).text


async def test_a_pattern_that_has_a_skill_is_not_told_again(world: World) -> None:
    await world.learn("Meeting notes go to the wiki", "Put meeting notes on the wiki", "The wiki has meeting notes")
    told = await world.briefings.start(world.reader())
    assert "Patterns detected: 1 detected (meeting-notes-wiki)\n" in told.text
    (pattern,) = await world.briefings._patterns.known(world.who, PUBLIC)  # pyright: ignore[reportPrivateUsage]
    await world.briefings._patterns.generate(world.by(), pattern, fresh())  # pyright: ignore[reportPrivateUsage]
    told = await world.briefings.start(world.reader())
    assert "Patterns detected: none\n" in told.text


async def test_a_store_that_does_not_answer_is_told_as_such(store: RedisStore) -> None:
    world = World(store)
    await world.learn("tea")
    gone = KnowledgeSearch(Watched(store.memories, gone=True))
    found = SkillSearch(store.skills)
    patterns = Patterns(gone, found, world.skills)
    briefings = Briefings(search=gone, skills=found, keeper=world.skills, patterns=patterns)
    for told in (briefings.start(world.reader()), briefings.apply(world.reader(), "tea")):
        with pytest.raises(StoreGoneError):
            await told
