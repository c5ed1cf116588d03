"""Laws `no_read_up` and `stored_things_keep_their_label` for skills, patterns, outcomes and briefings.

Sessions at several labels learn, write skills, generate them from patterns and tell how they went, and people decide
about them. The same is played again without what is above a reader: all that the others are told must be the same byte
for byte, labels too, in the same order. Quotas, counts, rates and names of patterns are among it.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.core.errors import NotFoundError, RequestError
from bot.knowledge.briefing import Briefing, BriefingLayout, BriefingReader, Briefings, SkillDetail
from bot.knowledge.keeper import Learner, MemoryKeeper
from bot.knowledge.patterns import Patterns
from bot.knowledge.recall import KnowledgeSearch
from bot.knowledge.skill_keeper import Decided, SkillEdit, SkillKeeper
from bot.knowledge.skill_search import SkillSearch
from bot.sessions.knowledge.skills import Outcome, Skill, SkillState, SkillText, digest
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from policy.labels import Label, join_all, parse
from tests.store.world import KEY, fresh, served

LABELS: Final = tuple(
    map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL", "CONFIDENTIAL~", "PUBLIC{hr}", "RESTRICTED{acme,hr}"))
)
READERS: Final = tuple(map(parse, ("PUBLIC", "INTERNAL", "PUBLIC{hr}", "CONFIDENTIAL", "CONFIDENTIAL{hr}")))
LOW, DIRTY, HIGH, HIGH_DIRTY = LABELS[0], LABELS[1], LABELS[3], LABELS[4]
_WORDS: Final = (
    "meeting notes wiki",
    "notes of meetings",
    "meeting notes",
    "ferry harbor timetable",
    "ferry timetable",
)
_WRITES: Final = ("learn", "correct", "create", "update", "generate", "reflect")
_DECIDES: Final = ("approve", "reject", "deprecate", "roll back")
_READS: Final = ("start", "apply", "list", "show", "patterns")
_MOST: Final = 3
_NOW: Final = 1_795_775_400_000

Runner = tuple[asyncio.Runner, RedisStore]


@dataclass(frozen=True)
class Step:
    """What is done by who has read `taint`, about `words`, or with what step number `which` made."""

    taint: Label
    action: str
    words: str = "meeting notes wiki"
    which: int = 0


_steps = st.builds(
    Step,
    st.sampled_from(LABELS),
    st.sampled_from((*_WRITES, "create", "approve", *_DECIDES, *_READS, "start")),
    st.sampled_from(_WORDS),
    st.integers(0, 9),
)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """A loop and a real store; each run has principals of its own."""
    servers = served()
    server = next(servers)
    with asyncio.Runner() as loop:
        store = loop.run(open_store(audit_key=KEY, url=server.url))
        yield loop, store
        loop.run(store.close())
    next(servers, None)


def made_by(number: int, kind: str = "skill") -> str:
    """Return the id of the skill, or of the memory, that a step makes, in every run."""
    return f"{kind}_{hashlib.sha256(str(number).encode()).hexdigest()[:12]}"


class Play:
    """Knowledge of a principal of its own, and what is done with it."""

    def __init__(self, store: RedisStore) -> None:
        self.who = fresh()
        self.number = 0
        self.search = KnowledgeSearch(store.memories)
        self.memories = MemoryKeeper(store.memories, now=self.now, most=_MOST + 3)
        self.skills = SkillKeeper(store.skills, now=self.now, most=_MOST)
        self.found = SkillSearch(store.skills)
        self.patterns = Patterns(self.search, self.found, self.skills)
        self.briefings = Briefings(search=self.search, skills=self.found, keeper=self.skills, patterns=self.patterns)

    def now(self) -> int:
        return _NOW + self.number

    async def steps(self, steps: list[tuple[int, Step]]) -> dict[int, object]:
        """Do all steps; return what each was told."""
        told = dict[int, object]()
        for self.number, step in steps:
            try:
                told[self.number] = await self.step(step)
            except RequestError as error:
                told[self.number] = (type(error).__name__, str(error), error.next_step)
        await self.search.close()
        return told

    async def step(self, step: Step) -> object:
        if step.action in _READS:
            return await self._read(step)
        if step.action in _DECIDES:
            return await self._decided(step)
        by, key = Learner(self.who, "ann", step.taint, step.taint), str(self.number)
        match step.action:
            case "learn":
                return (await self.memories.learn(by, step.words, key)).id
            case "correct":
                return (await self.memories.correct(by, made_by(step.which, "mem"), f"new {step.words}", key)).id
            case "reflect":
                outcome, name = tuple(Outcome)[step.which % 2], made_by(step.which)
                skill, rate = await self.skills.reflect(by, name, outcome, key, notes=step.words)
                return skill.id, rate, rate.percent
            case _:
                return told_of(await self._written(step, by, key))

    async def _written(self, step: Step, by: Learner, key: str) -> Skill:
        if step.action == "create":
            return await self.skills.create(by, said(step.words, key), key)
        if step.action == "update":
            edit = SkillEdit(f"{step.words} {key}", (f"check {step.words}",))
            return await self.skills.update(by, made_by(step.which), edit, key)
        known = await self.patterns.known(self.who, step.taint)
        if not known:
            raise NotFoundError
        return await self.patterns.generate(by, known[step.which % len(known)], key)

    async def _decided(self, step: Step) -> object:
        """Decide about a skill, where that tells those who know of it nothing that they may not know."""
        name = made_by(step.which)
        found = await self.skills.find(self.who, step.taint, name)
        if not step.taint.flows_to(found.label):
            return "not here"
        decided = Decided(found.latest.number, digest(found.latest.text))
        match step.action:
            case "approve":
                after = await self.skills.approve(self.who, step.taint, name, decided=decided, actor="ann")
            case "reject":
                after = await self.skills.reject(self.who, step.taint, name, decided=decided, actor="ann")
            case "deprecate":
                after = await self.skills.deprecate(self.who, step.taint, name, "ann")
            case _:
                after = await self.skills.roll_back(self.who, step.taint, name, 1, actor="ann")
        return told_of(after)

    async def _read(self, step: Step) -> object:
        reader = BriefingReader(self.who, step.taint)
        match step.action:
            case "start":
                context, limit = ("", step.words)[step.which % 2], step.which % 4
                shape = BriefingLayout(step.which % 3 == 0, tuple(SkillDetail)[step.which % 3], step.which == 9)
                return await self.briefings.start(
                    reader, context=context, memory_limit=limit, skill_limit=limit, layout=shape
                )
            case "apply":
                return await self.briefings.apply(reader, step.words, limit=1 + step.which % 3)
            case "list":
                page = await self.skills.listed(self.who, step.taint, limit=1 + step.which % 3)
                return [told_of(skill) for skill in page.skills], page.cursor
            case "show":
                name = made_by(step.which)
                shown = told_of(await self.skills.find(self.who, step.taint, name))
                noted = await self.skills.notes(self.who, step.taint, name)
                rates = await self.skills.rates(self.who, step.taint, [name])
                return shown, noted, rates, await self.skills.history(self.who, step.taint, name)
            case _:
                return await self.patterns.known(self.who, step.taint)


def said(words: str, key: str) -> SkillText:
    return SkillText(f"{words} {key}", words, "", (f"look at {words}", "and go on"))


def told_of(skill: Skill) -> object:
    """Return all that a skill tells, without whose it is, which differs from run to run."""
    versions = [(version, version.told) for version in skill.versions]
    return skill.id, skill.label, skill.state, skill.current, skill.derived_from, skill.revision, versions


@settings(max_examples=80)
@given(steps=st.lists(_steps, min_size=2, max_size=12), reader=st.sampled_from(READERS))
@example(
    # A pattern that is detected above emerges below, where its name, its place and its count are of what is there.
    steps=[
        Step(LOW, "learn"),
        *[Step(HIGH, "learn", words) for words in ("notes of meetings", "meeting notes")],
        Step(HIGH, "generate"),
        Step(LOW, "patterns"),
        Step(LOW, "start", which=3),
    ],
    reader=LOW,
)
@example(
    # Neither what was written, nor what was told of it above, is counted below.
    steps=[
        Step(LOW, "create"),
        Step(LOW, "approve"),
        Step(HIGH, "update"),
        *[Step(HIGH, "create") for _ in range(4)],
        *[Step(HIGH, "reflect", which=0) for _ in range(3)],
        Step(LOW, "reflect", which=0),
        Step(LOW, "show"),
        Step(LOW, "start", which=3),
        Step(LOW, "list", which=2),
    ],
    reader=LOW,
)
@example(
    # What a correction above hides there is counted and told below.
    steps=[
        Step(LOW, "learn"),
        Step(HIGH, "correct"),
        Step(HIGH, "learn"),
        Step(HIGH, "start", which=3),
        Step(LOW, "start", which=3),
    ],
    reader=LOW,
)
@example(
    # What is above is not there, by its id, too.
    steps=[
        Step(HIGH, "create"),
        Step(HIGH, "approve"),
        *[Step(LOW, action) for action in ("show", "update", "reflect", "approve", "roll back")],
    ],
    reader=LOW,
)
@example(
    # Rooms are apart.
    steps=[*[Step(label, "create") for label in LABELS[2:]], *[Step(label, "create") for label in (LOW, DIRTY, LOW)]],
    reader=LOW,
)
def test_no_read_up_by_skills_patterns_outcomes_and_briefings(runner: Runner, steps: list[Step], reader: Label) -> None:
    loop, store = runner
    every = list(enumerate(steps))
    below = [(number, step) for number, step in every if step.taint.flows_to(reader)]
    whole = loop.run(Play(store).steps(every))
    alone = loop.run(Play(store).steps(below))
    for number, _ in below:
        assert whole[number] == alone[number]


DECIDED: Final = frozenset({"approve", "reject", "deprecate", "roll back", "forget"})
"""What a person is asked about in an UNTRUSTED session."""


@settings(max_examples=80)
@given(steps=st.lists(_steps, min_size=2, max_size=12), reader=st.sampled_from(READERS))
@example(
    # Neither what a page had written, learned and told of it, nor how much of that, is known to what is TRUSTED.
    steps=[
        *(Step(LOW, "create"), Step(LOW, "approve"), Step(LOW, "learn"), Step(DIRTY, "create"), Step(DIRTY, "create")),
        *(Step(DIRTY, "reflect", which=0), Step(DIRTY, "learn"), Step(DIRTY, "learn"), Step(DIRTY, "generate")),
        *(Step(LOW, "list"), Step(LOW, "start", which=3), Step(LOW, "apply"), Step(LOW, "show", which=3)),
        *(Step(LOW, "patterns"), Step(LOW, "create"), Step(LOW, "create"), Step(LOW, "reflect", which=0)),
    ],
    reader=LOW,
)
def test_what_anybody_may_have_written_chooses_nothing_that_is_trusted(
    runner: Runner, steps: list[Step], reader: Label
) -> None:
    """The number of a version counts those that nobody approved, so updates of UNTRUSTED sessions are left out."""
    loop, store = runner
    every = [
        (number, step)
        for number, step in enumerate(steps)
        if step.taint.flows_to(reader) and not (step.taint.untrusted and step.action in DECIDED | {"update"})
    ]
    below = [(number, step) for number, step in every if step.taint.within(reader)]
    whole = loop.run(Play(store).steps(every))
    alone = loop.run(Play(store).steps(below))
    for number, _ in below:
        assert whole[number] == alone[number]


@settings(max_examples=80)
@given(steps=st.lists(_steps, min_size=2, max_size=12))
@example(
    # An UNTRUSTED update of a skill in force waits beside it.
    steps=[Step(LOW, "create"), Step(LOW, "approve"), Step(DIRTY, "update"), Step(LOW, "start", which=1)],
)
@example(
    # A TRUSTED update takes over what nobody approved.
    steps=[Step(DIRTY, "create"), Step(LOW, "update"), Step(HIGH, "update")],
)
@example(
    # What nobody approved comes into force by no other way.
    steps=[
        *(Step(LOW, "create"), Step(LOW, "update"), Step(LOW, "approve"), Step(LOW, "roll back")),
        *(Step(LOW, "update"), Step(LOW, "reject"), Step(LOW, "approve"), Step(LOW, "deprecate")),
    ],
)
@example(
    # Who has read more makes another skill.
    steps=[Step(LOW, "create"), Step(LOW, "approve"), Step(HIGH_DIRTY, "update"), Step(HIGH, "show", which=2)],
)
@example(
    # What one of three memories may have been written by anybody makes a draft that may have been.
    steps=[
        Step(LOW, "learn"),
        Step(HIGH_DIRTY, "learn", "notes of meetings"),
        Step(LOW, "learn", "meeting notes"),
        Step(HIGH, "generate"),
    ],
)
def test_stored_things_keep_their_label_whatever_becomes_of_a_skill(runner: Runner, steps: list[Step]) -> None:
    loop, store = runner
    play = Play(store)
    told = loop.run(play.steps(list(enumerate(steps))))
    kept = {skill.id: skill for skill in loop.run(play.skills.listed(play.who, join_all(LABELS), limit=99)).skills}
    calls = {made_by(number).removeprefix("skill_"): step for number, step in enumerate(steps)}
    learned = {made_by(number, "mem"): step.taint for number, step in enumerate(steps) if step.action == "learn"}
    for skill in kept.values():
        _require_kept_label(skill, kept, calls)
        # What was corrected has its own label joined with another.
        sources = join_all(learned[name] for one in skill.versions for name in one.sources if name in learned)
        assert sources.flows_to(skill.label)
        assert skill.versions[0].label.untrusted or not sources.untrusted
        _require_states(skill)
    for number, step in enumerate(steps):
        briefing = told[number]
        if isinstance(briefing, Briefing):
            # It is told as what is in it, and no skill is in it that nobody approved.
            assert step.taint.secrecy.flows_to(briefing.label)
            assert all(kept[name].label.flows_to(step.taint) for name in briefing.skills)


def _require_kept_label(skill: Skill, kept: dict[str, Skill], calls: dict[str, Step]) -> None:
    """Require that each version is at the skill's secrecy, and counts as TRUSTED only where all that wrote it does."""
    before = kept[skill.derived_from].label if skill.derived_from else skill.label
    first = calls[skill.versions[0].call].taint
    if not skill.versions[0].sources:
        assert skill.label == (before.join(first.secrecy) if skill.derived_from else first.secrecy)
    else:
        assert first.secrecy.flows_to(skill.label)
    for before_it, version in pairwise(skill.versions):
        drafts = not any(one.approved_by for one in skill.versions if one.number < version.number)
        # It takes over from a draft.
        assert version.label.untrusted or not (drafts and before_it.label.untrusted)
    for version in skill.versions:
        assert version.label.secrecy == skill.label
        assert version.label.untrusted or not calls[version.call].taint.untrusted
        assert version.told.untrusted == (version.label.untrusted and not version.approved_by)


def _require_states(skill: Skill) -> None:
    """Require that what is in force is what a person approved, and that the state tells so."""
    current = skill.version(skill.current)
    assert (current is not None and bool(current.approved_by)) == bool(skill.current)
    assert bool(skill.current) == (skill.state in {SkillState.ACTIVE, SkillState.DEPRECATED})
    assert not any(version.approved_by and version.rejected_by for version in skill.versions)
    assert [version.number for version in skill.versions] == list(range(1, len(skill.versions) + 1))
    if skill.state is SkillState.REJECTED:
        assert skill.latest.rejected_by
        assert not any(version.approved_by for version in skill.versions)
