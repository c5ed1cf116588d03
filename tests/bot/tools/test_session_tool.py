"""What an agent is told as it begins and for a task, and how it tells how a skill did."""

import json
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic_ai.messages import ToolReturnPart

from bot.access.principals import of_chat
from bot.core.errors import NotFoundError, in_words
from bot.knowledge import skill_keeper
from bot.knowledge.skill_keeper import Decided
from bot.sessions.knowledge.skills import SkillText, digest
from bot.tools import arguments as checking
from bot.tools.base import CallFacts, RefusedCallError, Result, ToolContext
from bot.tools.knowledge.learner import learner
from bot.tools.knowledge.memory import FOUND
from bot.tools.knowledge.session import NAMES, SessionArguments, SessionTool
from channels.messages import Address
from policy.labels import PUBLIC, Label
from tests.bot.kit import (
    CONFIDENTIAL,
    DIRTY,
    INTERNAL,
    TOP,
    Scripted,
    Services,
    call,
    gate,
    parts,
    policy,
    proposed,
    results,
    standing,
    tool_context,
)
from tests.harness import Person, running

pytestmark = pytest.mark.anyio


def tool(owner: Person) -> SessionTool:
    knowledge = owner.app.knowledge
    return SessionTool(knowledge.briefings, skills=knowledge.skills, memories=knowledge.keeper)


def at(owner: Person, taint: Label = PUBLIC, /, **changes: object) -> ToolContext:
    return tool_context(taint, **{"key": "k", "now": owner.app.clock.wall_ms(), **changes})


def read(**given: object) -> SessionArguments:
    return SessionArguments.model_validate_json(json.dumps(given))


async def ask(owner: Person, context: ToolContext, services: Services | None = None, /, **given: object) -> Result:
    made = tool(owner)
    checking.checked(made, json.loads(json.dumps(given)))
    made.declare(read(**given), context)
    return await made.run(read(**given), context, services or Services())


async def remember(owner: Person, text: str, taint: Label = PUBLIC, /, domain: str = "") -> str:
    context = at(owner, taint)
    return (await owner.app.knowledge.keeper.learn(learner(context), text, text, domain=domain)).id


async def skilled(owner: Person, name: str, *steps: str, taint: Label = PUBLIC, domain: str = "") -> str:
    """Have a skill in force; return its id."""
    keeper = owner.app.knowledge.skills
    text = SkillText(name, f"How {name.lower()} is done. In short.", domain, steps)
    made = await keeper.create(learner(at(owner, taint)), text, name)
    decided = Decided(1, digest(made.latest.text))
    return (await keeper.approve("owner", TOP, made.id, decided=decided, actor="owner")).id


@pytest.mark.parametrize(
    "given, why",
    [
        ({"action": "apply"}, "session with action `apply` needs `task`"),
        ({"action": "reflect"}, "session with action `reflect` needs `skill_id` and `outcome`"),
        ({"action": "reflect", "skill_id": "skill_0"}, "session with action `reflect` needs `outcome`"),
        ({"action": "start", "task": "x"}, "session with action `start` takes no `task`"),
        ({"action": "start", "limit": 3, "notes": "x"}, "session with action `start` takes no `limit` and `notes`"),
        ({"action": "apply", "task": "x", "context": "y"}, "session with action `apply` takes no `context`"),
        ({"action": "reflect", "skill_id": "x", "outcome": "success", "up_to": "PUBLIC"}, "takes no `up_to`"),
        ({"action": "start", "up_to": "SECRET"}, "SECRET"),
        ({"action": "start", "memory_limit": 51}, "`memory_limit` should be less than or equal to 50"),
        ({"action": "start", "skill_limit": -1}, "`skill_limit` should be greater than or equal to 0"),
        ({"action": "apply", "task": "x", "limit": 0}, "`limit` should be greater than or equal to 1"),
        ({"action": "start", "format": "long"}, "`format` should be 'full' or 'compact'"),
        ({"action": "start", "skill_detail": "all"}, "`skill_detail` should be 'full', 'summary' or 'name_only'"),
        ({"action": "reflect", "skill_id": "x", "outcome": "fine"}, "`outcome` should be 'success' or 'failure'"),
        ({"action": "apply", "task": "x" * 10_001}, "`task` should have at most 10000 characters"),
        ({"action": "stop"}, "`action` should be 'start', 'apply' or 'reflect'"),
    ],
)
async def test_what_an_action_needs_is_told_by_its_name(tmp_path: Path, given: dict[str, object], why: str) -> None:
    async with running(tmp_path, serve=False) as owner:
        with pytest.raises(RefusedCallError) as refused:
            await ask(owner, at(owner), **given)
        assert why in str(refused.value)


async def test_the_texts_have_the_shape_that_is_promised(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        about = "client-reporting"
        await remember(owner, "Reports go to the client every Friday by 5pm", domain=about)
        steps = ("Ask for numbers", "Pull metrics from the dashboard")
        report = await skilled(owner, "Weekly report", *steps, domain=about)
        given = {"domain": about, "context": "the weekly client report", "memory_limit": 1}
        started = await ask(owner, at(owner, key="s"), action="start", **given)
        assert started.text == (
            "Session started for domain: client-reporting\n\n"
            "Relevant memories (1):\n"
            "- Reports go to the client every Friday by 5pm\n\n"
            "Active skills (1):\n"
            f"- Weekly report ({report}) — 2-step workflow: How weekly report is done\n\n"
            "Patterns detected: 1 emerging (reports-client-friday → 1/3 observations)\n\n"
            "Stats: 1 memory, 1 skill, no reflections yet"
        )
        applied = await ask(owner, at(owner, key="a"), action="apply", task="Draft the metrics section", domain=about)
        assert applied.text.startswith(
            "Relevant context for task:\n\nSkills:\n"
            f"- Weekly report ({report}, active) — Step 2: Pull metrics from the dashboard\n\n"
        )
        named = await ask(owner, at(owner, key="n"), action="apply", task="metrics", skill_detail="name_only")
        assert f"- Weekly report ({report}, active)\n" in named.text
        compact = await ask(owner, at(owner, key="c"), action="start", format="compact", skill_limit=0)
        assert "\n\n" not in compact.text
        assert "Active skills (0): none" in compact.text
        summary = await ask(owner, at(owner, key="z"), action="start", summarize=True)
        assert len(summary.text.splitlines()) == 1
        context, last = at(owner), summary
        for number in range(8):
            outcome = "failure" if number == 3 else "success"
            context = at(owner, key=f"r{number}")
            last = await ask(owner, context, action="reflect", skill_id=report, outcome=outcome, notes="as told")
        assert last.text == (
            f"Reflection recorded for {report} (Weekly report): success. Lifetime: 8 uses, 87.5% success rate."
        )
        # The same call again counts once.
        assert await ask(owner, context, action="reflect", skill_id=report, outcome="success", notes="as told") == last


async def test_each_parameter_of_start_and_apply_says_what_is_told(tmp_path: Path) -> None:
    """Beside the texts, which are in `tests/bot/knowledge/test_briefing.py`: here each parameter gets there."""
    async with running(tmp_path, serve=False) as owner:
        for number in range(12):
            await remember(owner, f"tea number {chr(97 + number)}", domain="kitchen")
        for number in range(6):
            await skilled(owner, f"Tea {number}", "Boil water", domain="kitchen")

        async def told(**given: object) -> str:
            return (await ask(owner, at(owner, key=json.dumps(given)), **given)).text

        start, apply = {"action": "start"}, {"action": "apply", "task": "tea"}
        whole = await told(**start)
        assert ("Relevant memories (10):" in whole, "Active skills (5):" in whole) == (True, True)
        assert "1-step workflow" in whole
        assert "1. Boil water" not in whole
        assert "for domain: kitchen" in await told(**start, domain="kitchen")
        assert "number" not in await told(**start, domain="office")
        assert "Relevant memories (1):\n- tea number c" in await told(**start, context="number c", memory_limit=1)
        assert "Active skills (2):" in await told(**start, skill_limit=2)
        assert "1. Boil water" in await told(**start, skill_detail="full")
        assert "1-step workflow" not in await told(**start, skill_detail="name_only")
        assert (await told(**start, format="compact")).count("\n") == 4
        assert "\n" not in await told(**start, summarize=True)
        fitting = await told(**apply)
        assert (fitting.count(", active)"), fitting.count("- tea number")) == (5, 5)
        few = await told(**apply, limit=2)
        assert (few.count(", active)"), few.count("- tea number")) == (2, 2)
        assert "Skills: none" in await told(**apply, domain="office")
        assert "1. Boil water" in await told(**apply, skill_detail="full")
        assert "—" not in await told(**apply, skill_detail="name_only")
        assert (await told(**apply, format="compact")).count("\n") == 2
        assert "\n" not in await told(**apply, summarize=True)


async def test_notes_of_a_reflection_are_kept(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        name = await skilled(owner, "Tea", "Make tea")
        await ask(owner, at(owner), action="reflect", skill_id=name, outcome="failure", notes="too cold")
        kept = await owner.app.store.skills.notes("owner", (PUBLIC,), name)
        assert [(one.outcome.value, one.notes) for one in kept] == [("failure", "too cold")]


async def test_what_is_told_was_recalled(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        name = await remember(owner, "tea at four")
        await ask(owner, at(owner, key="s"), action="start")
        await ask(owner, at(owner, key="s"), action="start")
        await ask(owner, at(owner, CONFIDENTIAL, key="a"), action="apply", task="tea")
        uses = owner.app.knowledge.keeper.uses
        assert (await uses("owner", PUBLIC, name), await uses("owner", TOP, name)) == (1, 2)


async def test_it_tells_what_flows_to_the_session_and_up_to_raises_first(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        for action in ({"action": "start"}, {"action": "apply", "task": "tea"}):
            before = await ask(owner, at(owner), **action)
            assert (await ask(owner, at(owner), **action, up_to="CONFIDENTIAL")).label == CONFIDENTIAL
            assert before.label == PUBLIC
        await remember(owner, "tea for the deal", CONFIDENTIAL)
        high = await skilled(owner, "Tea for the deal", "Make tea", taint=CONFIDENTIAL)
        for action in ({"action": "start"}, {"action": "apply", "task": "tea"}):
            assert "deal" not in (await ask(owner, at(owner), **action)).text
            raised = await ask(owner, at(owner), **action, up_to="CONFIDENTIAL")
            assert ("deal" in raised.text, high in raised.text, raised.label) == (True, True, CONFIDENTIAL)
        given = {"action": "reflect", "outcome": "success"}
        unknown = await ask(owner, at(owner), **given, skill_id="skill_nothing")
        assert await ask(owner, at(owner), **given, skill_id=high) == unknown
        assert (unknown.failed, unknown.text) == (True, in_words(NotFoundError(next_step=NAMES)))
        other = at(owner, CONFIDENTIAL, principal="mel")
        assert (await ask(owner, other, **given, skill_id=high)).text == unknown.text


async def test_what_may_not_enter_the_context_is_left_out(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await remember(owner, "tea at four", DIRTY)
        await remember(owner, "tea at five")
        careful = Services(lambda label: not label.untrusted)
        for action in ({"action": "start"}, {"action": "apply", "task": "tea"}):
            whole = await ask(owner, at(owner), **action, up_to="PUBLIC~")
            assert ("four" in whole.text, "five" in whole.text, whole.label) == (True, True, DIRTY)
            # What anybody may have written is as if it were not there, and chooses nothing by that.
            part = await ask(owner, at(owner), **action)
            assert ("four" in part.text, "five" in part.text, part.label) == (False, True, PUBLIC)
            bare = await ask(owner, at(owner, DIRTY), careful, **action)
            assert ("four" in bare.text, "five" in bare.text, bare.label) == (False, False, DIRTY)
        name = await skilled(owner, "Tea", "Make tea")
        strict = Services(lambda _: False)
        refused = await ask(owner, at(owner), strict, action="reflect", skill_id=name, outcome="success")
        assert (refused.failed, refused.text) == (True, in_words(NotFoundError(next_step=NAMES)))


async def test_in_a_shared_chat_any_member_may_have_worded_it(tmp_path: Path) -> None:
    team = {"channel": "console", "chat": "team", "classification": "PUBLIC"}
    async with running(tmp_path, policy(chats={"team": team}), serve=False) as owner:
        place = Address("console", "team")
        whose: dict[str, Any] = {"principal": of_chat(place), "home": place, "document": owner.app.gate.document}
        context = at(owner, key="l", **whose)
        await owner.app.knowledge.keeper.learn(learner(context), "tea at four", "t")
        found = await ask(owner, context, action="start")
        assert ("tea at four" in found.text, found.label) == (True, DIRTY)
        assert "tea" not in (await ask(owner, at(owner), action="start")).text


async def test_how_it_went_is_told_of_active_skills_alone_and_at_the_sessions_label(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        name = await skilled(owner, "Tea", "Make tea")
        given = {"action": "reflect", "skill_id": name}
        await ask(owner, at(owner, CONFIDENTIAL, key="h"), **given, outcome="failure")
        low = await ask(owner, at(owner, key="l"), **given, outcome="success")
        assert low.text.endswith("success. Lifetime: 1 uses, 100% success rate.")
        high = await ask(owner, at(owner, INTERNAL, key="m"), **given, outcome="failure")
        assert high.text.endswith("failure. Lifetime: 2 uses, 50% success rate.")
        await owner.app.knowledge.skills.deprecate("owner", TOP, name, "owner")
        over = await ask(owner, at(owner, key="o"), **given, outcome="success")
        assert (over.failed, over.text) == (True, skill_keeper.NOT_ACTIVE)


async def test_a_call_says_beforehand_what_it_may_meet(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        made, context = tool(owner), at(owner, INTERNAL, ceiling=CONFIDENTIAL)
        seen = CallFacts(result=INTERNAL, clearance=CONFIDENTIAL, once=True)
        assert made.declare(read(action="start"), context) == seen
        higher = read(action="apply", task="x", up_to="CONFIDENTIAL")
        assert made.declare(higher, context) == replace(seen, result=CONFIDENTIAL)
        assert made.declare(read(action="reflect", skill_id="x", outcome="success"), context) == seen
        assert await made.foresee(read(action="start"), context) == [FOUND]
        assert await made.foresee(read(action="start"), at(owner, DIRTY)) == []


@pytest.mark.parametrize(
    "name, given, action",
    [
        ("session_start", {}, "start"),
        ("apply", {"task": "x"}, "apply"),
        ("reflect", {"skill_id": "skill_0", "outcome": "success"}, "reflect"),
        # The name says what is done, whatever stands beside it.
        ("session_start", {"action": "reflect"}, "start"),
    ],
)
async def test_by_its_other_names_it_is_the_same_tool(
    tmp_path: Path, name: str, given: dict[str, Any], action: str
) -> None:
    async with running(tmp_path, serve=False) as owner:
        calls = gate([tool(owner)]).calls
        made = calls.prepare(standing(), call(name, given))
        assert (made.call.tool, made.call.arguments) == ("session", {**given, "action": action})
        plain = calls.prepare(standing(), call("session", {**given, "action": action}))
        assert (made.decision, made.binding, made.accepted) == (plain.decision, plain.binding, plain.accepted)
        # They are not offered, and a tool of that name keeps it.
        assert name not in {one.name for one in owner.app.gate.tools}
        other = tool(owner)
        other.name, other.aliases = name, MappingProxyType({})
        kept = gate([tool(owner), other]).calls.prepare(standing(), call(name, given))
        assert kept.call.tool == name
        broken = calls.prepare(standing(), replace(call(name), arguments=None))
        assert broken.accepted is None


async def test_rules_approvals_and_the_audit_know_one_name_alone(tmp_path: Path) -> None:
    rule = {
        "id": "no-starts",
        "hook": "PRE_TOOL_CALL",
        "tools": ["session"],
        "when": 'arg_action == "start"',
        "action": "BLOCK",
        "message": "nothing is started here",
    }
    async with running(tmp_path, policy(rules=[rule])) as owner:
        assert "nothing is started here" in await owner.say("!session_start {}")
        simulated = await owner.say('!simulate_tool_call {"tool_name": "session_start", "args": {}}')
        assert "nothing is started here" in simulated
        assert "Relevant context" in await owner.say('!apply {"task": "x"}')
        chain = owner.app.store.audit
        rows = [record.body for record in (*await chain.records(owner.sid), *await chain.records("audit"))]
        decided = {str(row["tool"]) for row in rows if row.get("hook") == "PRE_TOOL_CALL"}
        assert decided == {"session", "simulate_tool_call"}


async def test_a_model_reads_the_result_under_the_name_that_it_called(tmp_path: Path) -> None:
    model = Scripted([proposed("apply", {"task": "x"})], "done")
    async with running(tmp_path, parts=parts(model=model)) as owner:
        await owner.say("hello")
        again = [part.tool_name for part in model.asked[-1][-1].parts if isinstance(part, ToolReturnPart)]
        assert again == ["apply"]
        # The log, which outlives the name, has the tool's own.
        assert results(await owner.events()) == [("session", "ok")]
