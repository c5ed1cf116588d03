"""A policy is reloaded as a whole or not at all, and decides from then on."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from bot.core.json_values import JsonObject
from bot.gate.results import NOT_KNOWN
from bot.sessions.log.event_types import PolicyDecision, ToolResult
from channels.messages import Address
from policy.labels import PUBLIC, parse
from tests.bot.kit import Scripted, eventually, parts, proposed
from tests.events import bodies
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

NO_TIME = "policy:\n  rules:\n    - {id: no-time, hook: PRE_TOOL_CALL, tools: [current_time], action: BLOCK}\n"


NOTE: Final[JsonObject] = {"path": "public/note.md", "text": "hello"}


def rewrite(folder: Path, text: str) -> None:
    (folder / "config.yaml").write_text(text)


async def verdicts(owner: Person) -> list[str]:
    return [decision.verdict.name for decision in bodies(await owner.events(), PolicyDecision)]


async def reloads(owner: Person) -> list[object]:
    """Return what the audit tells of reloads: every change of the policy but that of the start."""
    rows = [record async for record in owner.app.chains.records("audit")]
    return [row.body for row in rows if row.kind == "policy" and row.actor != "start"]


async def test_a_reload_decides_from_then_on_and_is_audited(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        before = owner.app.gate.document.digest
        assert f"Policy {before[:12]} is in force, 0 rules" in await owner.say("/policy")
        rewrite(tmp_path, NO_TIME)
        assert await owner.say("!current_time {}")
        assert await verdicts(owner) == []
        told = await owner.say("/policy reload")
        after = owner.app.gate.document.digest
        assert after != before
        assert f"Policy {after[:12]} is in force." in told
        await owner.say("!current_time {}")
        assert await verdicts(owner) == ["BLOCK"]
        assert "- no-time at PRE_TOOL_CALL says BLOCK" in await owner.say("/policy show")
        by = owner.app.store.policy.policy_head
        assert by is not None
        assert await reloads(owner) == [{"before": before, "in_force": after, "refused": False, "process": by.process}]
        decided = [record async for record in owner.app.chains.records(owner.sid)]
        assert {before, after} <= {str(row.body.get("policy")) for row in decided}


@pytest.mark.parametrize(
    "broken, told",
    [
        (NO_TIME[:-20], "config.yaml:"),
        (NO_TIME.replace("current_time", "curent_time"), "config.yaml:3: no tool matches `curent_time`"),
        (
            "policy:\n  rules:\n    - id: a\n      hook: PRE_OUTPUT\n      action: BLOCK\n      when: has_project\n",
            "config.yaml:6: at character 1 of the condition: unknown variable `has_project`",
        ),
        (
            "policy: {rules: [{id: a, hook: PRE_OUTPUT, action: REDACT, pattern: project}]}\n",
            "unknown pattern `project`",
        ),
        (None, "there is no such file"),
    ],
)
async def test_a_file_that_is_wrong_changes_nothing(tmp_path: Path, broken: str | None, told: str) -> None:
    async with running(tmp_path, NO_TIME) as owner:
        digest = owner.app.gate.document.digest
        if broken is None:
            (tmp_path / "config.yaml").unlink()
        else:
            rewrite(tmp_path, broken)
        said = await owner.say("/policy reload")
        assert told in said
        assert f"Nothing changed, policy {digest[:12]} stays in force" in said
        assert owner.app.gate.document.digest == digest
        await owner.say("!current_time {}")
        assert await verdicts(owner) == ["BLOCK"]
        assert await reloads(owner) == [{"in_force": digest, "refused": True}]


async def test_a_file_is_checked_without_being_put_in_force(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        digest = owner.app.gate.document.digest
        rewrite(tmp_path, "policy:\n  rules:\n    - {id: all, hook: PRE_OUTPUT, action: BLOCK}\n")
        told = await owner.say("/policy check")
        assert "config.yaml:3: silencing: rule `all` also keeps back" in told
        assert "can be put in force" in told
        rewrite(tmp_path, "policy: [\n")
        assert "config.yaml:2: not valid YAML" in await owner.say("/policy check")
        assert "Write it as `/policy [show|check|reload]`" in await owner.say("/policy relod")
        assert owner.app.gate.document.digest == digest


async def test_deny_overrides_by_the_policy_in_force_now(tmp_path: Path) -> None:
    """Lowering a clearance freezes the sessions above it; raising it again wakes them."""
    lowered = "policy: {models: {offline: {clearance: PUBLIC}}}\n"
    async with running(tmp_path) as owner:
        await owner.say('!read_file {"path": "confidential/pipeline.md"}')
        assert (await owner.state()).taint == parse("CONFIDENTIAL~")
        rewrite(tmp_path, lowered)
        await owner.say("/policy reload")
        assert "You said" not in await owner.say("what does it say?")
        assert "You said" not in await owner.say('!read_file {"path": "public/welcome.md"}')
        rewrite(tmp_path, "{}\n")
        await owner.say("/policy reload")
        assert "You said: hello" in await owner.say("hello")


BOSS = "policy:\n  principals:\n    boss: {role: owner, clearance: top, accounts: ['console:boss']}\n"


def with_ben(clearance: str) -> str:
    return f"{BOSS}    ben: {{role: member, clearance: {clearance}, accounts: ['console:ben']}}\n"


@pytest.mark.parametrize("after, told", [(with_ben("PUBLIC"), "done"), (BOSS, NOT_KNOWN)])
async def test_a_turn_under_way_knows_no_more_than_its_person_may_now(tmp_path: Path, after: str, told: str) -> None:
    """A clearance that is lowered, or a person who is removed, counts from the next call on."""
    asked = asyncio.Event()
    calls = [proposed("read_file", {"path": "internal/handbook.md"}), proposed("write_file", NOTE, name="y")]
    model = Scripted(calls, "done", wait=asked)

    async def thinking() -> bool:
        return bool(model.asked)

    async with running(tmp_path, with_ben("top"), parts=parts(model=model)) as owner:
        boss, ben = (
            Person(owner.app, owner.output, Address("console", name), f"console:{name}") for name in ("boss", "ben")
        )
        await ben.send("read it")
        await eventually(thinking)
        rewrite(tmp_path, after)
        digest = owner.app.gate.document.digest
        await boss.say("/policy reload", wait=False)
        assert owner.app.gate.document.digest != digest
        asked.set()
        await ben.settled()
        assert (await ben.state()).taint == PUBLIC
        verdict = "denied" if after == BOSS else "ok"
        assert [result.outcome for result in bodies(await ben.events(), ToolResult)] == ["denied", verdict]
        assert told in ben.shown


async def test_who_is_no_admin_is_told_of_no_such_command(tmp_path: Path) -> None:
    config = "policy:\n  principals:\n    ben: {role: approver, clearance: top, accounts: ['console:ben']}\n"
    async with running(tmp_path, config) as owner:
        ben = Person(owner.app, owner.output, Address("console", "ben"), "console:ben")
        assert "in force" not in await ben.say("/policy reload")
