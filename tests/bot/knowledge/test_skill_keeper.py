"""Skills as they are written, approved, rolled back and reflected on, on a real store."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.core.errors import BusyError, ChangedSkillError, CursorError, FullError, NotFoundError, RequestError
from bot.knowledge import skill_keeper
from bot.knowledge.keeper import DOMAIN_TOO_LONG, Learner
from bot.knowledge.skill_keeper import Decided, SkillEdit, SkillKeeper, checked
from bot.sessions.knowledge.skills import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    LONGEST_NOTES,
    LONGEST_SKILL,
    LONGEST_STEP,
    MOST_STEPS,
    MOST_VERSIONS,
    Outcome,
    Skill,
    SkillDeed,
    SkillEvent,
    SkillState,
    SkillText,
    SkillVersion,
    SuccessRate,
    digest,
)
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT
from policy.labels import PUBLIC, Label, parse
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP
from tests.bot.knowledge.watched import WatchedSkills
from tests.fleets import Served
from tests.store.world import KEY, fresh

pytestmark = pytest.mark.anyio

NOW: Final = 1_795_775_400_000
TEXT: Final = SkillText("Tea", "Makes tea.", "office", ("Boil water.", "Pour it."))
EDIT: Final = SkillEdit("Tea", ("Boil much water.", "Pour it."))


def author(label: Label = PUBLIC, principal: str = "", reader: Label = TOP) -> Learner:
    return Learner(principal or fresh(), "ann", label, reader, sid="s1", by_agent=True, authors=("bea",))


def keeper(store: RedisStore, most: int = 100, now: int = NOW) -> SkillKeeper:
    return SkillKeeper(store.skills, now=lambda: now, most=most)


def shown(skill: Skill, number: int = 0) -> Decided:
    """Return what a person decides about who was shown a version, the latest if none is said."""
    version = skill.version(number) or skill.latest
    return Decided(version.number, digest(version.text))


async def approved(keeps: SkillKeeper, skill: Skill) -> Skill:
    return await keeps.approve(skill.principal, TOP, skill.id, decided=shown(skill), actor="cy")


async def active(keeps: SkillKeeper, by: Learner) -> Skill:
    return await approved(keeps, await keeps.create(by, TEXT, fresh()))


async def test_a_skill_is_written_once_for_its_key_and_waits(store: RedisStore) -> None:
    keeps, by = keeper(store), author(parse("INTERNAL~"))
    key = f"{by.principal}/k"
    made = await keeps.create(by, TEXT, key, sources=("mem_1",))
    assert await keeps.create(replace(by, label=CONFIDENTIAL), replace(TEXT, name="Coffee"), key) == made
    assert await keeps.find(by.principal, TOP, made.id) == made
    assert (made.label, made.state, made.current, made.created_at) == (INTERNAL, SkillState.DRAFT, 0, NOW)
    only = SkillVersion(
        number=1,
        text=TEXT,
        label=by.label,
        made_at=NOW,
        asker="ann",
        by_agent=True,
        sid="s1",
        authors=("bea",),
        sources=("mem_1",),
        call=made.id.removeprefix("skill_"),
    )
    assert made.versions == (only,)
    assert made.shown is made.latest is made.waiting
    assert only.told == by.label
    for reader in (PUBLIC, DIRTY):
        with pytest.raises(NotFoundError):
            await keeps.find(by.principal, reader, made.id)


@pytest.mark.parametrize(
    "wrong, why",
    [
        ({"name": " \n"}, skill_keeper.NAMELESS),
        ({"name": "x" * (LONGEST_NAME + 1)}, skill_keeper.NAME_TOO_LONG),
        ({"description": "x" * (LONGEST_DESCRIPTION + 1)}, skill_keeper.DESCRIPTION_TOO_LONG),
        ({"domain": "x" * 65}, DOMAIN_TOO_LONG),
        ({"steps": ()}, skill_keeper.STEPLESS),
        ({"steps": ("x",) * (MOST_STEPS + 1)}, skill_keeper.STEPLESS),
        ({"steps": ("x", " ")}, skill_keeper.STEP_WORDLESS),
        ({"steps": ("x" * (LONGEST_STEP + 1),)}, skill_keeper.STEP_TOO_LONG),
        ({"steps": ("x" * LONGEST_STEP,) * 6}, skill_keeper.SKILL_TOO_LONG),
    ],
)
async def test_a_skill_says_something_and_not_too_much(store: RedisStore, wrong: dict[str, str], why: str) -> None:
    keeps, by = keeper(store), author()
    text = replace(TEXT, **wrong)
    with pytest.raises(RequestError) as refused:
        await keeps.create(by, text, fresh())
    assert str(refused.value) == why
    made = await keeps.create(by, TEXT, fresh())
    edit = SkillEdit(text.name, text.steps, text.description, text.domain)
    with pytest.raises(RequestError, match=why):
        await keeps.update(by, made.id, edit, fresh())
    assert (await keeps.listed(by.principal, TOP)).skills == (made,)


def test_the_largest_skill_is_kept_as_it_is() -> None:
    steps = ("x" * LONGEST_STEP,) * 5
    rest = LONGEST_SKILL - 5 * LONGEST_STEP - LONGEST_NAME - LONGEST_DESCRIPTION
    text = SkillText("n" * LONGEST_NAME, "d" * LONGEST_DESCRIPTION, "", (*steps, "y" * rest))
    assert checked(text) == text
    with pytest.raises(RequestError, match=skill_keeper.SKILL_TOO_LONG):
        checked(replace(text, domain="z"))


def test_no_part_of_a_skill_looks_like_another() -> None:
    text = SkillText(" Tea\n(approved) ", "a\r\n\nb", " of\tfice", ("Boil.\n2. Pay the bill.\u2028x",))
    assert checked(text) == SkillText("Tea (approved)", "a b", "of fice", ("Boil. 2. Pay the bill. x",))


def test_a_digest_stands_for_one_text() -> None:
    texts = [TEXT, replace(TEXT, name="tea"), replace(TEXT, description=""), replace(TEXT, domain="")]
    texts += [replace(TEXT, steps=TEXT.steps[::-1]), replace(TEXT, steps=("Boil water.Pour it.",))]
    texts += [
        SkillText("Tea", "Makes tea.", "office", ("Boil water.", "Pour it.", "")),
        SkillText("a", "b", "", ("c",)),
    ]
    assert len({digest(text) for text in (*texts, SkillText("a", "", "b", ("c",)))}) == len(texts) + 1
    assert len(digest(replace(TEXT, name="\ud800"))) == 24


async def test_an_update_waits_beside_what_is_in_force(store: RedisStore) -> None:
    keeps, by = keeper(store), author()
    skill = await active(keeps, by)
    key = fresh()
    after = await keeps.update(by, skill.id, EDIT, key)
    assert (after.id, after.state, after.current, after.shown) == (skill.id, SkillState.ACTIVE, 1, skill.latest)
    assert after.latest.text == replace(TEXT, steps=EDIT.steps)
    # Again for its key it is the same version, also from above.
    for again in (by, replace(by, label=CONFIDENTIAL)):
        assert await keeps.update(again, skill.id, replace(EDIT, name="Coffee"), key) == after
    whole = SkillEdit("Coffee", ("Grind.",), description="", domain="kitchen")
    third = await keeps.update(by, skill.id, whole, fresh())
    assert third.latest.text == SkillText("Coffee", "", "kitchen", ("Grind.",))
    # It takes over from what a person approved.
    assert (third.latest.number, third.latest.told) == (3, PUBLIC)


async def test_what_anybody_may_have_written_is_another_skill_until_a_person_approves_it(store: RedisStore) -> None:
    """A TRUSTED session is told neither that there is one, nor by a number, an order or a log."""
    keeps, by, dirty = keeper(store), author(), replace(author(), label=DIRTY, reader=TOP)
    dirty = replace(dirty, principal=by.principal)
    skill = await active(keeps, by)
    key = fresh()
    made = await keeps.update(dirty, skill.id, EDIT, key)
    assert (made.id != skill.id, made.derived_from, made.state) == (True, skill.id, SkillState.DRAFT)
    assert (made.latest.text, made.latest.told) == (replace(TEXT, steps=EDIT.steps), DIRTY)
    assert await keeps.update(dirty, skill.id, EDIT, key) == made
    assert await keeps.find(by.principal, TOP, skill.id) == skill
    assert [one.id for one in (await keeps.listed(by.principal, PUBLIC)).skills] == [skill.id]
    done = await approved(keeps, made)
    assert (done.state, done.shown.told) == (SkillState.ACTIVE, PUBLIC)
    assert (await keeps.find(by.principal, TOP, skill.id)).state is SkillState.DEPRECATED
    # One from above changes nothing below.
    above = await keeps.update(replace(by, label=CONFIDENTIAL), done.id, EDIT, fresh())
    await approved(keeps, above)
    assert (await keeps.find(by.principal, TOP, done.id)).state is SkillState.ACTIVE


async def test_what_takes_over_from_a_draft_is_as_little_trusted(store: RedisStore) -> None:
    keeps, by = keeper(store), author(DIRTY)
    draft = await keeps.create(by, TEXT, fresh())
    after = await keeps.update(replace(by, label=PUBLIC), draft.id, EDIT, fresh())
    assert after.latest.label == DIRTY
    assert (await approved(keeps, after)).shown.told == PUBLIC


async def test_who_has_read_more_makes_another_skill(store: RedisStore) -> None:
    keeps, by = keeper(store), author(INTERNAL)
    skill = await active(keeps, by)
    key, above = f"{by.principal}/up", replace(by, label=parse("PUBLIC{hr}~"))
    other = await keeps.update(above, skill.id, EDIT, key)
    assert (other.label, other.state, other.derived_from) == (parse("INTERNAL{hr}"), SkillState.DRAFT, skill.id)
    assert other.latest.label == parse("INTERNAL{hr}~")
    assert other.latest.text == replace(TEXT, steps=EDIT.steps)
    assert await keeps.update(above, skill.id, EDIT, key) == other
    assert await keeps.find(by.principal, INTERNAL, skill.id) == skill
    rows = [one.body for one in await store.audit.records(AUDIT, limit=100_000) if one.body.get("skill") == other.id]
    assert [one["derived_from"] for one in rows] == [skill.id]


async def test_what_is_not_there_is_not_changed(store: RedisStore) -> None:
    keeps, by = keeper(store), author(INTERNAL)
    made = await keeps.create(by, TEXT, fresh())
    for name, reader in ((made.id, PUBLIC), ("skill_0", TOP), ("", TOP), ("x" * 1_000, TOP)):
        below = replace(by, label=PUBLIC, reader=reader)
        for change in (
            keeps.update(below, name, EDIT, fresh()),
            keeps.approve(by.principal, reader, name, decided=shown(made), actor="cy"),
            keeps.reject(by.principal, reader, name, decided=shown(made), actor="cy"),
            keeps.deprecate(by.principal, reader, name, "cy"),
            keeps.roll_back(by.principal, reader, name, 1, actor="cy"),
            keeps.reflect(below, name, Outcome.SUCCESS, fresh()),
            keeps.history(by.principal, reader, name),
            keeps.notes(by.principal, reader, name),
        ):
            with pytest.raises(NotFoundError):
                await change
    assert await keeps.find(by.principal, TOP, made.id) == made


async def test_what_was_shown_is_what_is_approved(store: RedisStore) -> None:
    keeps, by = keeper(store), author(DIRTY)
    draft = await keeps.create(by, TEXT, fresh())
    seen = shown(draft)
    later = await keeps.update(by, draft.id, EDIT, fresh())
    wrong = [
        seen,
        replace(seen, number=2),
        replace(shown(later), number=1),
        replace(shown(later), number=3),
        replace(shown(later), digest=""),
    ]
    for decided in wrong:
        for decide in (keeps.approve, keeps.reject):
            with pytest.raises(ChangedSkillError, match="that skill changed meanwhile"):
                await decide(by.principal, TOP, draft.id, decided=decided, actor="cy")
    assert await keeps.find(by.principal, TOP, draft.id) == later
    after = await approved(keeps, later)
    assert (after.state, after.current) == (SkillState.ACTIVE, 2)
    assert (after.shown.approved_by, after.shown.approved_at) == ("cy", NOW)
    assert [one.told.untrusted for one in after.versions] == [True, False]
    # The same once more is done already; what was in force before is none that waits.
    assert await approved(keeps, later) == after
    with pytest.raises(ChangedSkillError):
        await keeps.approve(by.principal, TOP, draft.id, decided=seen, actor="cy")


async def test_an_old_approval_does_not_roll_back(store: RedisStore) -> None:
    keeps, by = keeper(store), author()
    first = await active(keeps, by)
    after = await approved(keeps, await keeps.update(by, first.id, EDIT, fresh()))
    with pytest.raises(ChangedSkillError):
        await approved(keeps, first)
    assert await keeps.find(by.principal, TOP, first.id) == after


async def test_a_draft_that_is_rejected_ends_with_its_skill_unless_one_is_in_force(store: RedisStore) -> None:
    keeps, by = keeper(store, most=1), author()
    draft = await keeps.create(by, TEXT, fresh())
    gone = await keeps.reject(by.principal, TOP, draft.id, decided=shown(draft), actor="cy")
    assert (gone.state, gone.waiting, gone.latest.rejected_by) == (SkillState.REJECTED, None, "cy")
    assert await keeps.reject(by.principal, TOP, draft.id, decided=shown(draft), actor="di") == gone
    with pytest.raises(RequestError, match=skill_keeper.REJECTED):
        await approved(keeps, gone)
    with pytest.raises(RequestError, match=skill_keeper.REJECTED):
        await keeps.update(by, draft.id, EDIT, fresh())
    # Its room is free.
    skill = await active(keeps, by)
    with pytest.raises(FullError):
        await keeps.create(by, TEXT, fresh())
    later = await keeps.update(by, skill.id, EDIT, fresh())
    kept = await keeps.reject(by.principal, TOP, skill.id, decided=shown(later), actor="cy")
    assert (kept.state, kept.current, kept.waiting) == (SkillState.ACTIVE, 1, None)
    for decide in (keeps.approve, keeps.reject):
        with pytest.raises(ChangedSkillError):
            await decide(by.principal, TOP, skill.id, decided=replace(shown(later), number=1), actor="cy")
    with pytest.raises(ChangedSkillError):
        await approved(keeps, kept)


async def test_a_deprecated_skill_is_approved_again(store: RedisStore) -> None:
    keeps, by = keeper(store), author()
    skill = await active(keeps, by)
    old = await keeps.deprecate(by.principal, TOP, skill.id, "cy")
    assert (old.state, old.current) == (SkillState.DEPRECATED, 1)
    for change in (
        keeps.deprecate(by.principal, TOP, skill.id, "cy"),
        keeps.roll_back(by.principal, TOP, skill.id, 1, actor="cy"),
        keeps.reflect(by, skill.id, Outcome.SUCCESS, fresh()),
    ):
        with pytest.raises(RequestError, match=skill_keeper.NOT_ACTIVE):
            await change
    # A version that was written since waits, and its rejection leaves the skill deprecated.
    later = await keeps.update(by, skill.id, EDIT, fresh())
    kept = await keeps.reject(by.principal, TOP, skill.id, decided=shown(later), actor="cy")
    assert kept.state is SkillState.DEPRECATED
    again = await keeps.approve(by.principal, TOP, skill.id, decided=shown(skill), actor="di")
    assert (again.state, again.current, again.shown.approved_by) == (SkillState.ACTIVE, 1, "cy")


async def test_a_skill_is_rolled_back_to_what_a_person_approved(store: RedisStore) -> None:
    keeps, by = keeper(store), author()
    skill = await active(keeps, by)
    await approved(keeps, await keeps.update(by, skill.id, EDIT, fresh()))
    await keeps.update(by, skill.id, EDIT, fresh())
    for number, why in ((3, skill_keeper.NOT_APPROVED), (4, skill_keeper.NO_VERSION), (0, skill_keeper.NO_VERSION)):
        with pytest.raises(RequestError, match=why):
            await keeps.roll_back(by.principal, TOP, skill.id, number, actor="cy")
    back = await keeps.roll_back(by.principal, TOP, skill.id, 1, actor="cy", by_agent=True)
    assert (back.current, back.shown.text, back.state) == (1, TEXT, SkillState.ACTIVE)
    assert await keeps.roll_back(by.principal, TOP, skill.id, 1, actor="cy") == back
    assert (await keeps.history(by.principal, TOP, skill.id))[0] == SkillEvent(
        NOW, "cy", SkillDeed.ROLLED_BACK, 1, by_agent=True
    )


async def test_the_log_and_the_audit_tell_what_was_done(store: RedisStore) -> None:
    keeps, by = keeper(store), author()
    skill = await keeps.create(by, TEXT, fresh(), deed=SkillDeed.GENERATED)
    await approved(keeps, skill)
    later = await keeps.update(replace(by, by_agent=False), skill.id, EDIT, fresh())
    await keeps.reject(by.principal, TOP, skill.id, decided=shown(later), actor="cy")
    await keeps.deprecate(by.principal, TOP, skill.id, "di")
    expected = [
        ("ann", SkillDeed.GENERATED, 1, True),
        ("cy", SkillDeed.APPROVED, 1, False),
        ("ann", SkillDeed.UPDATED, 2, False),
        ("cy", SkillDeed.REJECTED, 2, False),
        ("di", SkillDeed.DEPRECATED, 1, False),
    ]
    told = await keeps.history(by.principal, TOP, skill.id)
    assert [(one.actor, one.do, one.version, one.by_agent) for one in reversed(told)] == expected
    rows = [one for one in await store.audit.records(AUDIT, limit=100_000) if one.body.get("principal") == by.principal]
    assert {(one.kind, one.body["skill"], one.body["label"]) for one in rows} == {("skill", skill.id, "PUBLIC")}
    assert [(r.actor, r.body["do"], r.body["version"], r.body["by_agent"]) for r in rows] == expected
    assert "water" not in str(rows)


async def test_agents_that_write_draft_after_draft_leave_what_people_approved(store: RedisStore) -> None:
    keeps, by = keeper(store), author()
    skill = await active(keeps, by)
    for _ in range(MOST_VERSIONS + 3):
        skill = await keeps.update(by, skill.id, EDIT, fresh())
    assert len(skill.versions) == MOST_VERSIONS
    assert [one.number for one in skill.versions] == [1, *range(6, MOST_VERSIONS + 5)]
    assert skill.latest is skill.waiting
    for _ in range(MOST_VERSIONS):
        skill = await approved(keeps, await keeps.update(by, skill.id, EDIT, fresh()))
    # All are approved: the oldest goes, and never the one that is in force.
    assert all(one.approved_by for one in skill.versions)
    oldest = skill.versions[0].number
    await keeps.roll_back(by.principal, TOP, skill.id, oldest, actor="cy")
    skill = await keeps.update(by, skill.id, EDIT, fresh())
    assert [one.number for one in skill.versions][:2] == [oldest, oldest + 2]


async def test_changes_at_once_come_one_after_another(store: RedisStore) -> None:
    keeps, by = keeper(store), author()
    skill = await keeps.create(by, TEXT, fresh())
    await asyncio.gather(*(keeps.update(by, skill.id, EDIT, fresh()) for _ in range(4)))
    after = await keeps.find(by.principal, TOP, skill.id)
    assert [one.number for one in after.versions] == [1, 2, 3, 4, 5]
    assert (after.revision, len(await keeps.history(by.principal, TOP, skill.id))) == (5, 5)


async def test_a_change_that_others_forestall_all_the_time_is_busy(store: RedisStore) -> None:
    by = author()
    skill = await keeper(store).create(by, TEXT, fresh())
    watched = WatchedSkills(store.skills, forestalled=100)
    late = SkillKeeper(watched, now=lambda: NOW, most=5)
    for change in (late.update(by, skill.id, EDIT, fresh()), approved(late, skill)):
        with pytest.raises(BusyError):
            await change
    # One that others forestall once is made of what they left.
    watched.forestalled = 1
    assert (await approved(late, skill)).current == 1
    watched.forestalled = 1
    assert (await late.update(by, skill.id, EDIT, fresh())).latest.number == 2


async def test_a_page_ends_where_the_next_begins(store: RedisStore) -> None:
    by = author()
    made = list[Skill]()
    for number in range(5):
        here = keeper(store, now=NOW + number)
        label, text = (PUBLIC, CONFIDENTIAL)[number % 2], replace(TEXT, domain=("office", "", "kitchen")[number % 3])
        made.insert(0, await here.create(replace(by, label=label), text, fresh()))
    keeps, cursor, pages = keeper(store), "", list[tuple[Skill, ...]]()
    # What changes keeps its place.
    made[3] = await approved(keeper(store, now=NOW + 9), made[3])
    while True:
        page = await keeps.listed(by.principal, TOP, after=cursor, limit=2)
        cursor = page.cursor
        pages.append(page.skills)
        if not cursor:
            break
    assert pages == [tuple(made[:2]), tuple(made[2:4]), tuple(made[4:])]
    low = await keeps.listed(by.principal, PUBLIC, limit=3)
    assert (list(low.skills), low.cursor) == (made[::2], "")
    for cursor in (made[1].id, "skill_0"):
        with pytest.raises(CursorError):
            await keeps.listed(by.principal, PUBLIC, after=cursor)
    only = await keeps.listed(by.principal, TOP, states={SkillState.ACTIVE})
    assert only.skills == (made[3],)
    about = await keeps.listed(by.principal, TOP, domain="office", limit=2)
    assert [(one.shown.text.domain, bool(about.cursor)) for one in about.skills] == [("", True), ("office", True)]
    assert (await keeps.listed(by.principal, TOP, domain="office", after=about.cursor)).skills == tuple(made[3:])
    assert (await keeps.listed(fresh(), TOP)).skills == ()


async def test_more_skills_than_are_read_at_once_are_listed(store: RedisStore) -> None:
    keeps, by = keeper(store, most=300), author()
    for _ in range(105):
        await keeps.create(by, TEXT, fresh())
    assert len((await keeps.listed(by.principal, TOP, limit=200)).skills) == 105


async def test_outcomes_are_told_to_those_who_may_know_of_them(store: RedisStore) -> None:
    keeps, by = keeper(store), author(reader=PUBLIC)
    skill = await active(keeps, by)
    for _ in range(7):
        await keeps.reflect(by, skill.id, Outcome.SUCCESS, fresh(), notes="it was a success")
    told, rate = await keeps.reflect(by, skill.id, Outcome.FAILURE, fresh(), notes="it was a failure")
    assert (told, rate, rate.percent) == (skill, SuccessRate(8, 7), "87.5")
    key = fresh()
    # Once for its key, and what anybody may have told counts for no reader who is TRUSTED.
    dirty = replace(by, label=DIRTY, reader=DIRTY)
    for _ in range(2):
        assert (await keeps.reflect(dirty, skill.id, Outcome.FAILURE, key))[1] == SuccessRate(9, 7)
    # Their own one counts for those, too, who may not know of others that were told at its label.
    high = replace(by, label=CONFIDENTIAL)
    for _ in range(2):
        assert (await keeps.reflect(high, skill.id, Outcome.SUCCESS, fresh()))[1] == SuccessRate(9, 8)
    assert (await keeps.reflect(high, skill.id, Outcome.FAILURE, fresh()))[1] == SuccessRate(9, 7)
    seen = {PUBLIC: (8, 7), DIRTY: (9, 7), INTERNAL: (8, 7), CONFIDENTIAL: (11, 9), parse("CONFIDENTIAL~"): (12, 9)}
    for reader, expected in seen.items():
        assert await keeps.rates(by.principal, reader, [skill.id, "skill_0"]) == {skill.id: SuccessRate(*expected)}
    assert len(await keeps.notes(by.principal, PUBLIC, skill.id)) == 8
    assert {one.notes for one in await keeps.notes(by.principal, TOP, skill.id)} == {
        "it was a success",
        "it was a failure",
    }
    with pytest.raises(RequestError, match=skill_keeper.NOTES_TOO_LONG):
        await keeps.reflect(by, skill.id, Outcome.SUCCESS, fresh(), notes="x" * (LONGEST_NOTES + 1))


async def test_what_is_told_of_a_skill_is_known_no_lower_than_the_skill(store: RedisStore) -> None:
    keeps, by = keeper(store), author(CONFIDENTIAL)
    skill = await active(keeps, by)
    _, rate = await keeps.reflect(replace(by, label=PUBLIC), skill.id, Outcome.SUCCESS, fresh(), notes="well")
    assert rate == SuccessRate(1, 1)
    assert PUBLIC not in await store.skills.versions(by.principal)
    assert [one.label for one in await keeps.notes(by.principal, CONFIDENTIAL, skill.id)] == [CONFIDENTIAL]


@pytest.mark.parametrize(
    "uses, successes, percent", [(0, 0, ""), (8, 7, "87.5"), (1, 1, "100"), (3, 2, "66.7"), (3, 0, "0"), (9, 8, "88.9")]
)
def test_a_rate_has_one_decimal_at_most(uses: int, successes: int, percent: str) -> None:
    assert SuccessRate(uses, successes).percent == percent


# What becomes of a skill, whatever is done with it ---------------------------------------------------------


@dataclass
class Model:
    """A skill as a few lines tell it: what was decided about each version, which is in force, and what it may do."""

    decided: list[str] = field(default_factory=lambda: [""])
    untrusted: list[bool] = field(default_factory=lambda: [False])
    current: int = 0
    state: SkillState = SkillState.DRAFT

    def update(self, *, untrusted: bool) -> bool:
        if self.state is SkillState.REJECTED:
            return False
        base = (self.current or len(self.decided)) - 1
        untrusted = untrusted or (self.untrusted[base] and self.decided[base] != "approved")
        told = [not one or decided == "approved" for one, decided in zip(self.untrusted, self.decided, strict=True)]
        if untrusted and any(told):
            # It makes another skill.
            return True
        self.untrusted.append(untrusted)
        self.decided.append("")
        return True

    def approve(self, number: int) -> bool:
        if self.state is SkillState.REJECTED:
            return False
        if number != self.current:
            if number != len(self.decided) or self.decided[-1]:
                return False
            self.decided[-1] = "approved"
        self.current, self.state = number, SkillState.ACTIVE
        return True

    def reject(self, number: int) -> bool:
        if self.decided[number - 1] == "rejected":
            return True
        if number != len(self.decided) or self.decided[-1]:
            return False
        self.decided[-1] = "rejected"
        self.state = self.state if self.current else SkillState.REJECTED
        return True

    def deprecate(self) -> bool:
        if self.state is not SkillState.ACTIVE:
            return False
        self.state = SkillState.DEPRECATED
        return True

    def roll_back(self, number: int) -> bool:
        if self.state is not SkillState.ACTIVE or self.decided[number - 1] != "approved":
            return False
        self.current = number
        return True


_acts = st.tuples(
    st.sampled_from(("update", "update", "approve", "approve", "reject", "deprecate", "roll_back")),
    st.integers(0, 3),
    st.booleans(),
)


@pytest.fixture(scope="module")
def runner(server: Served) -> Iterator[tuple[asyncio.Runner, RedisStore]]:
    with asyncio.Runner() as loop:
        store = loop.run(open_store(audit_key=KEY, url=server.url))
        yield loop, store
        loop.run(store.close())


async def drive(store: RedisStore, acts: list[tuple[str, int, bool]]) -> None:
    keeps, by, model = keeper(store), author(), Model()
    skill = await keeps.create(by, TEXT, fresh())
    who, name = by.principal, skill.id
    for what, back, untrusted in acts:
        number = max(len(model.decided) - back, 1)
        decided = shown(skill, number)
        by = replace(by, label=DIRTY if untrusted else PUBLIC)
        does = {
            "update": lambda by=by: keeps.update(by, name, EDIT, fresh()),
            "approve": lambda decided=decided: keeps.approve(who, TOP, name, decided=decided, actor="cy"),
            "reject": lambda decided=decided: keeps.reject(who, TOP, name, decided=decided, actor="cy"),
            "deprecate": lambda: keeps.deprecate(who, TOP, name, "cy"),
            "roll_back": lambda number=number: keeps.roll_back(who, TOP, name, number, actor="cy"),
        }
        expected = {
            "update": lambda untrusted=untrusted: model.update(untrusted=untrusted),
            "approve": lambda number=number: model.approve(number),
            "reject": lambda number=number: model.reject(number),
            "deprecate": model.deprecate,
            "roll_back": lambda number=number: model.roll_back(number),
        }
        if expected[what]():
            await does[what]()
        else:
            with pytest.raises(RequestError):
                await does[what]()
        skill = await keeps.find(who, TOP, name)
        kinds = ["approved" if one.approved_by else "rejected" if one.rejected_by else "" for one in skill.versions]
        assert (skill.state, skill.current, kinds) == (model.state, model.current, model.decided)
        assert [one.label.untrusted for one in skill.versions] == model.untrusted
        # What nobody approved is as little TRUSTED as what wrote it, and what is in force a person approved.
        assert [one.told.untrusted for one in skill.versions] == [
            untrusted and decided != "approved"
            for untrusted, decided in zip(model.untrusted, model.decided, strict=True)
        ]


@given(st.lists(_acts, max_size=14))
@example([("approve", 0, False), ("update", 0, True), ("deprecate", 0, False), ("approve", 1, False)])
@example(
    [("approve", 0, False), ("update", 0, True), ("approve", 0, False), ("update", 0, False), ("roll_back", 2, False)]
)
@settings(max_examples=60)
def test_a_skill_goes_the_ways_that_there_are(
    runner: tuple[asyncio.Runner, RedisStore], acts: list[tuple[str, int, bool]]
) -> None:
    loop, store = runner
    loop.run(drive(store, acts))
