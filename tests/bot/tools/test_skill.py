"""What an agent writes down as a skill: with which label, what its person is asked, and when that puts it in force."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.access.principals import of_chat
from bot.core.errors import CursorError, FullError, NotFoundError, in_words
from bot.knowledge import patterns, skill_keeper
from bot.sessions.approvals import Approval, ApprovalQuestion, ApprovalState, QuestionAnswer, QuestionKind
from bot.sessions.knowledge.skills import Skill, SkillState
from bot.tools import arguments as checking
from bot.tools.base import CallFacts, Inquiry, RefusedCallError, Result, ToolContext
from bot.tools.knowledge.learner import learner
from bot.tools.knowledge.memory import FOUND
from bot.tools.knowledge.skill import (
    ABOVE,
    APPROVED,
    LATER,
    LISTS,
    NOT_SHOWN,
    NOT_THEIRS,
    ONLY,
    PATTERNS,
    PERSON,
    REJECTED,
    UNASKED,
    SkillArguments,
    SkillTool,
)
from channels.messages import Address
from policy.labels import PUBLIC, Label
from policy.request import Role
from tests.bot.kit import CONFIDENTIAL, DIRTY, INTERNAL, TOP, Services, policy, tool_context
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

REPORT: dict[str, Any] = {"action": "create", "name": "Weekly report", "steps": ["Collect numbers.", "Write it."]}


def tool(owner: Person) -> SkillTool:
    return SkillTool(owner.app.knowledge.skills, owner.app.knowledge.patterns)


def at(owner: Person, taint: Label = PUBLIC, /, **changes: object) -> ToolContext:
    facts = {"key": "k", "now": owner.app.clock.wall_ms(), "document": owner.app.gate.document}
    return tool_context(taint, **{**facts, **changes})


def read(**given: object) -> SkillArguments:
    return SkillArguments.model_validate_json(json.dumps(given))


async def call(owner: Person, context: ToolContext, services: Services | None = None, /, **given: object) -> Result:
    made = tool(owner)
    checking.checked(made, json.loads(json.dumps(given)))
    arguments = read(**given)
    made.declare(arguments, context)
    return await made.run(arguments, context, services or Services())


async def answered(owner: Person, context: ToolContext, value: str | None, /, **given: object) -> ToolContext:
    """Return a context in which the person was asked about a call and said something, or nothing in time."""
    asks = await tool(owner).inquiry(read(**given), context)
    assert asks is not None
    answer = None if value is None else QuestionAnswer(value, PUBLIC, "console/owner")
    facts: dict[str, Any] = {**given, "question": asks.question}
    question = Approval(
        id="q",
        sid="s1",
        generation=1,
        turn="t1",
        call="c1",
        tool="skill",
        binding="",
        label=PUBLIC,
        principal=context.caller.asker,
        question=ApprovalQuestion("skill", facts, kind=QuestionKind.QUESTION),
        rules=(),
        expires_at=0,
        state=ApprovalState.EXPIRED if value is None else ApprovalState.REPLIED,
        answer=answer,
    )
    return replace(context, asked=question)


async def told(result: Result) -> Any:  # noqa: ANN401 - whatever it tells
    assert not result.failed, result.text
    return json.loads(result.text)


async def create(owner: Person, taint: Label = PUBLIC, /, answer: str = "", **given: object) -> Any:  # noqa: ANN401 - as above
    """Have a skill written; return what is told of it."""
    given = {**REPORT, **given}
    context = at(owner, taint, key=json.dumps(given))
    context = await answered(owner, context, answer, **given) if answer else context
    return await told(await call(owner, context, **given))


async def find(owner: Person, name: str, reader: Label = TOP) -> Skill:
    return await owner.app.knowledge.skills.find("owner", reader, name)


async def listed(owner: Person, taint: Label = PUBLIC, /, **given: object) -> tuple[list[Any], Label]:
    result = await call(owner, at(owner, taint), action="list", **given)
    document = await told(result)
    assert document["note"] == ONLY
    return document["skills"], result.label


@pytest.mark.parametrize(
    "given, why",
    [
        ({"action": "create"}, "skill with action `create` needs `name` and `steps`"),
        (
            {"action": "create", "name": "x", "steps": ["y"], "version": 1},
            "skill with action `create` takes no `version`",
        ),
        ({"action": "update", "name": "x", "steps": ["y"]}, "skill with action `update` needs `skill_id`"),
        ({"action": "update"}, "skill with action `update` needs `skill_id` and `name` and `steps`"),
        ({"action": "generate"}, "skill with action `generate` needs `pattern`"),
        ({"action": "versions"}, "skill with action `versions` needs `skill_id`"),
        ({"action": "rollback", "skill_id": "skill_0"}, "skill with action `rollback` needs `version`"),
        ({"action": "audit_log"}, "skill with action `audit_log` needs `skill_id`"),
        ({"action": "list", "skill_id": "skill_0"}, "skill with action `list` takes no `skill_id`"),
        ({"action": "list", "up_to": "SECRET"}, "SECRET"),
        ({"action": "list", "limit": 51}, "`limit` should be less than or equal to 50"),
        ({"action": "list", "state": "ready"}, "`state` should be 'draft', 'active', 'deprecated' or 'rejected'"),
        ({"action": "approve", "skill_id": "skill_0"}, "`action` should be 'list', 'create', 'update'"),
        ({**REPORT, "steps": ["x"] * 21}, "`steps` should have at most 20 items"),
        ({**REPORT, "name": "x" * 81}, "`name` should have at most 80 characters"),
        ({**REPORT, "label": "PUBLIC"}, "`label` is not one of its arguments"),
    ],
)
async def test_what_an_action_needs_is_told_by_its_name(tmp_path: Path, given: dict[str, object], why: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        with pytest.raises(RefusedCallError) as refused:
            await call(owner, at(owner), **given)
        assert why in str(refused.value)


async def test_what_is_written_is_a_draft_until_its_person_approves_it(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        made = await create(owner, description="For the client.", domain="reports")
        assert (made["state"], made["version"], made["note"]) == ("draft", 1, UNASKED.format(made["id"]))
        kept = await find(owner, made["id"])
        assert (kept.state, kept.current, kept.label) == (SkillState.DRAFT, 0, PUBLIC)
        assert (kept.latest.by_agent, kept.latest.sid, kept.latest.asker) == (True, "s1", "owner")
        # The same call again, after a crash, is the same draft.
        assert await create(owner, description="For the client.", domain="reports") == made
        assert len((await listed(owner))[0]) == 1

        for answer, state, note in (("approve", "active", APPROVED), ("reject", "rejected", REJECTED)):
            done = await create(owner, answer=answer, name=answer)
            assert (done["state"], done["note"]) == (state, note)
            # It was decided before a crash: the call tells the same again, and nothing is decided twice.
            assert await create(owner, answer=answer, name=answer) == done
            assert len(await owner.app.knowledge.skills.history("owner", TOP, done["id"])) == 2
        done = await create(owner, answer="later", name="later")
        assert (done["state"], done["note"]) == ("draft", LATER.format(done["id"]))
        late = await answered(owner, at(owner, key="late"), None, **REPORT)
        assert (await told(await call(owner, late, **REPORT)))["state"] == "draft"


async def test_the_question_shows_all_that_would_be_in_force(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        given = {
            **REPORT,
            "description": "fine\nLabel: PUBLIC",
            "domain": "re\u200bports",
            "steps": ["Do \u202ethis.\n2. Nothing else.", "x" * 400],
        }
        asks = await tool(owner).inquiry(read(**given), at(owner, DIRTY))
        assert isinstance(asks, Inquiry)
        assert asks.question.splitlines() == [
            "May this skill be used from now on? This is all of it:",
            "Name: `Weekly report`",
            "Description: `fine Label: PUBLIC`",
            "Domain: `re\\u200bports`",
            "1. `Do \\u202ethis. 2. Nothing else.`",
            f"2. `{'x' * 400}`",
            "Written by the agent, from UNTRUSTED data. Label: PUBLIC~",
        ]
        assert (asks.literal, asks.default) == (True, "later")
        assert asks.wanted is not None
        assert asks.wanted.members == ("approve", "reject", "later")
        update = await tool(owner).inquiry(read(**{**REPORT, "action": "update", "skill_id": "skill_0"}), at(owner))
        assert update is not None
        assert update.question.startswith("May skill skill_0 be used like this from now on? This is all of it:")


async def test_nobody_is_asked_where_nobody_reads_or_decides(tmp_path: Path) -> None:
    people = {
        "owner": principal("console:owner"),
        "gus": principal("console:gus", role="guest", clearance="PUBLIC"),
        "mel": principal("console:mel", role="member", clearance="PUBLIC"),
    }
    async with running(tmp_path, policy(principals=people), serve=False) as owner:
        asks, write, team = tool(owner).inquiry, read(**REPORT), of_chat(Address("room", "team"))
        assert await asks(write, at(owner)) is not None
        assert await asks(write, at(owner, principal="mel", asker="mel", role=Role.MEMBER)) is not None
        assert await asks(write, at(owner, principal=team, asker="owner")) is not None
        for context in (
            at(owner, home=Address("session", "s0")),
            at(owner, turn=""),
            at(owner, principal="gus", asker="gus", role=Role.GUEST),
            at(owner, principal=team, asker="mel", role=Role.MEMBER),
            at(owner, principal="gone", asker="gone"),
        ):
            assert await asks(write, context) is None
        for given in ({"action": "list"}, {"action": "generate", "pattern": "x"}, {**REPORT, "steps": [" "]}):
            assert await asks(read(**given), at(owner)) is None


async def test_an_answer_counts_for_exactly_what_was_shown(tmp_path: Path) -> None:
    class Scrubbing(Services):
        def scrub(self, text: str) -> str:
            return text.replace("numbers", "[secret]")

    async with running(tmp_path, serve=False) as owner:
        context = await answered(owner, at(owner, key="a"), "approve", **REPORT)
        # What the person was shown was another text, or of another label, or is not what is kept.
        changed = await call(owner, context, **{**REPORT, "steps": ["Collect numbers.", "Send it."]})
        higher = replace(context, key="b", session=replace(context.session, taint=INTERNAL))
        raised = await call(owner, higher, **REPORT)
        scrubbed = await call(owner, replace(context, key="c"), Scrubbing(), **REPORT)
        for result in (changed, raised, scrubbed):
            document = await told(result)
            assert (document["state"], document["note"]) == ("draft", NOT_SHOWN)
            assert (await find(owner, document["id"])).current == 0
        # Somebody who may not decide any more has decided nothing.
        demoted = replace(context, key="d", document=owner.app.gate.document.model_copy(update={"principals": {}}))
        assert (await told(await call(owner, demoted, **REPORT)))["note"] == NOT_THEIRS


async def test_a_new_version_waits_beside_the_one_in_force(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        name = (await create(owner, answer="approve", domain="reports"))["id"]
        change = {"action": "update", "skill_id": name, "name": "Report", "steps": ["Write it at once."]}
        made = await told(await call(owner, at(owner, key="u"), **change))
        assert (made["id"], made["version"], made["state"]) == (name, 2, "active")
        assert (made["in_force"], made["waiting"]) == (1, 2)
        ((one,), _) = await listed(owner)
        assert (one["name"], one["version"], one["steps"], one["state"]) == ("Weekly report", 1, 2, "active")
        context = await answered(owner, at(owner, key="u2"), "approve", **change)
        made = await told(await call(owner, context, **change))
        assert (made["version"], made["note"]) == (3, APPROVED)
        assert (made["in_force"], made["waiting"]) == (3, None)
        # What an update leaves out is empty, as the person was shown it.
        ((one,), _) = await listed(owner)
        assert (one["name"], one["version"], one["domain"]) == ("Report", 3, None)

        versions = await call(owner, at(owner), action="versions", skill_id=name)
        document = await told(versions)
        assert (document["in_force"], document["state"], versions.label) == (3, "active", PUBLIC)
        assert [(one["version"], bool(one["approved_at"])) for one in document["versions"]] == [
            *((1, True), (2, False), (3, True)),
        ]
        assert document["versions"][1]["steps"] == ["Write it at once."]

        back = await told(await call(owner, at(owner), action="rollback", skill_id=name, version=1))
        assert back == {"id": name, "version": 1, "state": "active"}
        for version, why in ((2, skill_keeper.NOT_APPROVED), (9, skill_keeper.NO_VERSION)):
            refused = await call(owner, at(owner), action="rollback", skill_id=name, version=version)
            assert (refused.failed, refused.text) == (True, why)
        log = await told(await call(owner, at(owner), action="audit_log", skill_id=name))
        assert [(one["do"], one["version"], one["by_agent"]) for one in log["events"]] == [
            *(("rolled back", 1, True), ("approved", 3, False), ("updated", 3, True)),
            *(("updated", 2, True), ("approved", 1, False), ("created", 1, True)),
        ]
        # Another one begins with what is in force, and a rejected skill gets no more versions.
        gone = (await create(owner, answer="reject", name="no"))["id"]
        refused = await call(owner, at(owner, key="u3"), **{**change, "skill_id": gone})
        assert (refused.failed, refused.text) == (True, f"{skill_keeper.REJECTED}; create another one")


async def test_what_a_list_is_asked_for_and_what_it_tells_of_a_skill(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for number in range(3):
            await create(owner, answer="approve", name=f"Tea {number}", domain="kitchen")
        draft = await create(owner, name="Report", description="For the client.", domain="reports")
        assert [one["name"] for one in (await listed(owner, state="draft"))[0]] == ["Report"]
        assert len((await listed(owner, domain="kitchen"))[0]) == 3
        page = await told(await call(owner, at(owner), action="list", limit=3))
        rest = await told(await call(owner, at(owner), action="list", limit=3, after=page["next"]))
        assert (len(page["skills"]), len(rest["skills"]), rest["next"]) == (3, 1, None)
        (one,) = (await listed(owner, domain="reports"))[0]
        kept = await find(owner, draft["id"])
        assert one == {
            "id": draft["id"],
            "name": "Report",
            "description": "For the client.",
            "domain": "reports",
            "state": "draft",
            "version": 1,
            "steps": 2,
            "label": "PUBLIC",
            "uses": 0,
            "success_rate": None,
        }
        versions = await told(await call(owner, at(owner), action="versions", skill_id=draft["id"]))
        assert versions == {
            "id": draft["id"],
            "state": "draft",
            "in_force": None,
            "versions": [
                {
                    "version": 1,
                    "name": "Report",
                    "description": "For the client.",
                    "domain": "reports",
                    "steps": ["Collect numbers.", "Write it."],
                    "label": "PUBLIC",
                    "made_at": kept.latest.made_at,
                    "by_agent": True,
                    "sources": [],
                    "approved_at": None,
                    "rejected_at": None,
                }
            ],
        }
        log = await told(await call(owner, at(owner), action="audit_log", skill_id=draft["id"]))
        (line,) = log["events"]
        assert log == {"id": draft["id"], "events": [line]}
        assert line == {"at": line["at"], "do": "created", "version": 1, "actor": "owner", "by_agent": True}
        learned = owner.app.knowledge.keeper.learn
        for number, text in enumerate(
            ("Send the weekly report.", "The weekly report goes out.", "Weekly report: PDF.")
        ):
            await learned(learner(at(owner)), text, str(number), domain="reports")
        (pattern,) = await owner.app.knowledge.patterns.known("owner", PUBLIC)
        given = {"action": "generate", "pattern": pattern.name}
        assert (await call(owner, at(owner, key="o"), **given, domain="office")).failed
        assert (await told(await call(owner, at(owner, key="g"), **given, domain="reports")))["domain"] == "reports"
        change = {"action": "update", "skill_id": draft["id"], "name": "Report", "steps": ["x"]}
        await call(owner, at(owner, key="u"), **change, description="For us.", domain="office")
        new = (await find(owner, draft["id"])).latest.text
        assert (new.description, new.domain, new.steps) == ("For us.", "office", ("x",))
        assert kept.latest.text.description == "For the client."


async def test_it_is_known_where_its_label_flows_to(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        low = (await create(owner, answer="approve"))["id"]
        high = (await create(owner, CONFIDENTIAL, name="Deal"))["id"]
        assert [one["id"] for one in (await listed(owner))[0]] == [low]
        found, label = await listed(owner, CONFIDENTIAL)
        assert ({one["id"] for one in found}, label) == ({low, high}, CONFIDENTIAL)
        found, label = await listed(owner, up_to="CONFIDENTIAL")
        assert ({one["id"] for one in found}, label) == ({low, high}, CONFIDENTIAL)
        assert await listed(owner, up_to="INTERNAL") == ((await listed(owner))[0], INTERNAL)
        # Absent and above are one answer, byte for byte, and so is another principal's.
        for action, more in (
            ("versions", {}),
            ("audit_log", {}),
            ("rollback", {"version": 1}),
            ("update", {"name": "x", "steps": ["y"]}),
        ):
            unknown = await call(owner, at(owner), action=action, skill_id="skill_nothing", **more)
            assert await call(owner, at(owner), action=action, skill_id=high, **more) == unknown
            assert unknown.text == in_words(NotFoundError(next_step=LISTS))
            other = at(owner, CONFIDENTIAL, principal="mel")
            assert (await call(owner, other, action=action, skill_id=high, **more)).text == unknown.text
        refused = await call(owner, at(owner), action="list", after=high)
        assert (refused.failed, refused.text) == (True, str(CursorError()))


async def test_a_session_that_has_read_more_leaves_it_as_it_is(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        low = (await create(owner, answer="approve"))["id"]
        change = {"action": "update", "skill_id": low, "name": "Report", "steps": ["Leave the deal out."]}
        made = await told(await call(owner, at(owner, CONFIDENTIAL, key="u"), **change))
        assert made["id"] != low
        assert (made["derived_from"], made["state"]) == (low, "draft")
        assert (await find(owner, made["id"])).label == CONFIDENTIAL
        assert len((await find(owner, low)).versions) == 1
        assert [one["id"] for one in (await listed(owner))[0]] == [low]
        refused = await call(owner, at(owner, CONFIDENTIAL), action="rollback", skill_id=low, version=1)
        assert (refused.failed, refused.text, refused.label) == (True, ABOVE, CONFIDENTIAL)


async def test_what_anybody_may_have_written_is_told_so_until_a_person_approved_it(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        clean = (await create(owner, answer="approve", name="clean"))["id"]
        dirty = (await create(owner, DIRTY, name="dirty"))["id"]
        # To a TRUSTED session it is as if it were not there.
        kept = await call(owner, at(owner), action="list")
        assert ([one["id"] for one in json.loads(kept.text)["skills"]], kept.label) == ([clean], PUBLIC)
        whole = await call(owner, at(owner, DIRTY), action="list")
        assert ({one["id"] for one in json.loads(whole.text)["skills"]}, whole.label) == ({clean, dirty}, DIRTY)
        change = {"action": "update", "name": "x", "steps": ["y"]}
        for given in ({"action": "versions"}, {"action": "audit_log"}, change):
            absent = await call(owner, at(owner, key="a"), **given, skill_id="skill_nothing")
            assert await call(owner, at(owner, key="a"), **given, skill_id=dirty) == absent
            assert absent.text == in_words(NotFoundError(next_step=LISTS))
        # A version that waits leaves what a person approved as it is, and is told apart.
        change = {"action": "update", "skill_id": clean, "name": "x", "steps": ["y"]}
        await call(owner, at(owner, DIRTY, key="u"), **change)
        assert (await listed(owner, state="active"))[1] == PUBLIC
        assert len((await find(owner, clean)).versions) == 1
        for action in ("versions", "audit_log"):
            assert (await call(owner, at(owner), action=action, skill_id=clean)).label == PUBLIC
        # A person's approval is of that text, wherever it came from.
        done = await create(owner, DIRTY, answer="approve", name="endorsed")
        assert (await find(owner, done["id"])).shown.told == PUBLIC


async def test_a_pattern_makes_a_draft_and_no_more(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        learn, name, made = owner.app.knowledge.keeper.learn, "", Result("")
        author = replace(learner(at(owner)), label=INTERNAL, reader=INTERNAL)
        for number, text in enumerate(
            ("Send the weekly report.", "The weekly report goes out.", "Weekly report: as PDF.")
        ):
            await learn(author, text, str(number), domain="reports")
            (pattern,) = await owner.app.knowledge.patterns.known("owner", INTERNAL)
            name = pattern.name
            made = await call(owner, at(owner, INTERNAL, key=f"g{number}"), action="generate", pattern=name)
            if number < 2:
                why = patterns.EMERGING.format(name=name, observations=f"{number + 1}/3")
                assert (made.failed, made.text) == (True, why)
        document = await told(made)
        assert (document["state"], document["steps"], len(document["sources"])) == ("draft", 3, 3)
        assert (made.label, document["label"]) == (INTERNAL, "INTERNAL")
        again = await call(owner, at(owner, INTERNAL, key="g2"), action="generate", pattern=name)
        assert again.text == made.text
        for context, services in ((at(owner), None), (at(owner, INTERNAL), Services(lambda _: False))):
            refused = await call(owner, context, services, action="generate", pattern=name)
            assert (refused.failed, refused.text) == (True, in_words(NotFoundError(next_step=PATTERNS)))


async def test_a_call_says_beforehand_what_it_may_meet(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        made, context = tool(owner), at(owner, INTERNAL, ceiling=CONFIDENTIAL)

        def declared(context: ToolContext = context, /, **given: object) -> CallFacts:
            return made.declare(read(**given), context)

        plain = CallFacts(clearance=CONFIDENTIAL, once=True)
        assert declared(**REPORT) == plain
        high = await answered(owner, context, "later", **REPORT)
        assert high.asked is not None
        assert high.asked.answer is not None
        high = replace(high, asked=replace(high.asked, answer=replace(high.asked.answer, label=CONFIDENTIAL)))
        assert declared(high, **REPORT) == replace(plain, result=CONFIDENTIAL)
        assert declared(action="list") == replace(plain, result=INTERNAL)
        assert declared(action="list", up_to="CONFIDENTIAL") == replace(plain, result=CONFIDENTIAL)
        assert declared(action="versions", skill_id="x") == replace(plain, result=INTERNAL)
        back = declared(action="rollback", skill_id="x", version=1)
        assert back == replace(plain, result=INTERNAL, consequential=True)
        assert await made.foresee(read(**REPORT), context) == [PERSON]
        assert await made.foresee(read(**REPORT), at(owner, turn="")) == []
        assert await made.foresee(read(action="list"), context) == [FOUND]
        assert await made.foresee(read(action="list"), at(owner, DIRTY)) == []


async def test_no_more_are_kept_than_may_be(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks={"knowledge": {"skills": 1}}), serve=False) as owner:
        await create(owner)
        full = await call(owner, at(owner, key="two"), **{**REPORT, "name": "two"})
        assert (full.failed, full.text) == (True, in_words(FullError("skills")))
        await create(owner, CONFIDENTIAL, name="three")
        empty = await call(owner, at(owner, CONFIDENTIAL, key="e"), **{**REPORT, "steps": ["  "]})
        assert (empty.failed, empty.text) == (True, skill_keeper.STEP_WORDLESS)
