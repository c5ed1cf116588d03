"""Replay of the audit by another policy: nothing changes by the same one, and every kind of change is counted."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from bot.audit.decisions import RecordedDecision
from bot.operations.rehearsal.redeclared import FAMILIAR
from bot.operations.rehearsal.rehearsal import Rehearsal
from bot.operations.rehearsal.replay import PolicyReplay, ReplayReport
from bot.sessions.approvals import ApprovalState
from bot.store.schema import session_keys
from bot.tools import catalogue
from policy.decision import Verdict
from policy.document.model import Document, load
from tests.bot.kit import bang, eventually, note, parts
from tests.bot.mailbox import LABELLED
from tests.bot.tools.held.test_made_entries import BOUNDED, Drafts, drafted, forward
from tests.bot.tools.held.test_made_entries import config as made_entries
from tests.harness import Person, running
from tests.store.world import command

pytestmark = pytest.mark.anyio

RULES = [
    {"id": "mask", "hook": "PRE_OUTPUT", "pattern": "us-ssn", "action": "REDACT"},
    {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["list_files"], "action": "REQUIRE_APPROVAL"},
    {"id": "long", "hook": "PRE_TOOL_CALL", "when": "given_up_to", "tools": ["read_file"], "action": "BLOCK"},
    {"id": "seen", "hook": "PRE_TOOL_CALL", "tools": ["message"], "pattern": "us-ssn", "action": "BLOCK"},
]
SECOND = {"role": "admin", "clearance": "top", "accounts": ["console:ada"]}
OWNER = {"role": "owner", "clearance": "top", "accounts": ["console:owner"]}
PEOPLE = {"owner": OWNER, "ada": SECOND}
SSN = "536-90-4399"

LINES = (
    "hello",
    f"my number is {SSN}",
    bang("read_file", path="public/welcome.md"),
    bang("read_file", path="internal/handbook.md"),
    bang("read_file", path="confidential/pipeline.md"),
    bang("read_file", path="public/welcome.md", up_to="INTERNAL"),
    bang("read_file", path="nowhere/at/all.md"),
    bang("list_files", path="public"),
    bang("write_file", path="public/note.md", text="a note"),
    bang("write_file", path="workspace/note.md", text="a note"),
    bang("web_fetch", url="https://nowhere.example/"),
    bang("nonsense"),
    note("guest", "good morning"),
    note("guest", f"it is {SSN}"),
    note("owner", "to myself"),
    bang("sessions_spawn", task="look around"),
    bang("sessions_spawn", task="look around", up_to="CONFIDENTIAL"),
    "/reset confirm",
    "/taint raise INTERNAL",
    "/why",
)


def configured(rules: Sequence[Mapping[str, object]], people: Mapping[str, object] = PEOPLE) -> Document:
    return load({"principals": people, "rules": [*rules]}, tools=catalogue.ARGUMENTS)


def written(rules: Sequence[Mapping[str, object]], people: Mapping[str, object] = PEOPLE) -> str:
    return json.dumps({"policy": {"principals": people, "rules": [*rules]}})


async def replayed(person: Person, file: Document) -> ReplayReport:
    return await PolicyReplay(person.app.store, person.app.chains).report(file, person.app.gate.document, 30)


def told(report: ReplayReport) -> dict[tuple[str, str, str, str], int]:
    return {
        (change.then.name, change.now.name, change.rule, change.about): count
        for change, count in report.changes.items()
    }


async def answered(owner: Person) -> None:
    """Answer what waits: the owner approves what they may, and refuses everything else."""
    for one in await owner.app.store.approvals.of(owner.sid):
        if one.state is ApprovalState.PENDING:
            await owner.say(f"/{'deny' if 'ask' in one.rules else 'approve'} {one.id}")


async def test_by_the_policy_that_decided_nothing_changes(tmp_path: Path) -> None:
    """The first law of a replay, over a generated stream of decisions through the whole application."""
    chosen = random.Random(20)  # noqa: S311 - a stream that is the same in each run
    async with running(tmp_path, written(RULES)) as owner:
        for line in (*LINES, *chosen.choices(LINES, k=5)):
            await owner.say(line)
            await answered(owner)
        file = owner.app.config.policy
        report = await replayed(owner, file)
        assert report.decisions > 90
        verdicts = set[str]()
        rehearsal = Rehearsal(file)
        for chain in await owner.app.chains.names():
            for record in await owner.app.chains.newest(chain, 1000):
                decision = RecordedDecision.of(record)
                if decision is not None:
                    verdicts.add(decision.verdict)
                    again = rehearsal.rehearsed(decision)
                    assert (again.untold, again.changed) == (None, False), record
        assert verdicts == {verdict.name for verdict in Verdict}
        assert (told(report), dict(report.untold), report.elsewhere, report.broken) == ({}, {}, 0, {})


async def test_a_released_call_is_asked_about_again_where_nobody_may_release(tmp_path: Path) -> None:
    people = {**PEOPLE, "owner": {**OWNER, "may_release": True}}
    async with running(tmp_path, written([], people)) as owner:
        await owner.say(bang("read_file", path="internal/handbook.md"))
        await owner.say(bang("web_fetch", url="https://nowhere.example/"))
        await answered(owner)
        await owner.settled()
        assert told(await replayed(owner, owner.app.config.policy)) == {}
        without = await replayed(owner, configured([]))
        assert told(without) == {
            ("REQUIRE_APPROVAL", "BLOCK", "no_write_down", "web_fetch"): 1,
            ("ALLOW", "BLOCK", "no_write_down", "web_fetch"): 1,
        }


async def test_each_kind_of_change_is_counted_by_rule_and_tool(tmp_path: Path) -> None:
    async with running(tmp_path, written(RULES)) as owner:
        await owner.say(note("guest", f"it is {SSN}"))
        await owner.say(bang("list_files", path="public"))
        await answered(owner)
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say(bang("read_file", path="internal/handbook.md"))
        same = await replayed(owner, owner.app.config.policy)
        assert told(same) == {}

        # A new rule about a tool: calls that were let through would be asked about.
        asks: dict[str, object] = {
            "id": "reads",
            "hook": "PRE_TOOL_CALL",
            "tools": ["read_file"],
            "action": "REQUIRE_APPROVAL",
        }
        report = await replayed(owner, configured([*RULES, asks]))
        assert told(report) == {("ALLOW", "REQUIRE_APPROVAL", "reads", "read_file"): 2}
        (names,) = report.examples.values()
        assert all(name.startswith(f"{owner.sid}:") for name in names)

        # Nobody else may answer it: they would be refused.
        alone = await replayed(owner, configured([*RULES, asks], {"owner": OWNER}))
        assert told(alone)["ALLOW", "BLOCK", "reads", "read_file"] == 2

        # A rule that is gone, and one that blocks where it asked.
        harder = {**RULES[1], "action": "BLOCK"}
        report = await replayed(owner, configured([RULES[0], harder, RULES[2]]))
        assert told(report)["REQUIRE_APPROVAL", "BLOCK", "ask", "list_files"] == 1
        assert told(report)["BLOCK", "REDACT", "seen", "message"] == 1

        # A folder with a lower clearance of its people, and a person who is not known any more.
        low = {**PEOPLE, "owner": {**OWNER, "clearance": "PUBLIC"}}
        report = await replayed(owner, configured(RULES, low))
        assert ("ALLOW", "BLOCK", "read_is_decided_before_it_happens", "read_file") in told(report)
        gone = await replayed(owner, configured(RULES, {"ada": SECOND}))
        assert gone.unknown["owner"] > 5


async def test_content_that_the_audit_does_not_hold_is_never_guessed(tmp_path: Path) -> None:
    """A new rule about content cannot be told; the same rule, once it was `log_only`, can."""
    rule: dict[str, object] = {"id": "ssn", "hook": "PRE_OUTPUT", "pattern": "us-ssn", "action": "BLOCK"}
    (tmp_path / "new").mkdir()
    async with running(tmp_path / "new", written([])) as owner:
        await owner.say("hello")
        report = await replayed(owner, configured([rule]))
        assert report.changes.total() == 0
        assert report.untold["a rule looks at content, which the audit does not hold"] >= 1
    (tmp_path / "logged").mkdir()
    async with running(tmp_path / "logged", written([{**rule, "log_only": True}])) as owner:
        await owner.say("hello")
        said = await owner.say(f"my number is {SSN}")
        assert SSN in said
        report = await replayed(owner, configured([rule]))
        assert (dict(report.untold), report.elsewhere) == ({}, 0)
        assert set(told(report)) == {("ALLOW", "BLOCK", "ssn", "PRE_OUTPUT")}


def bounded(message: object) -> Document:
    tools = {"message": {"bounds": message}} if message else {}
    return load({"tools": tools}, tools=catalogue.ARGUMENTS)


async def test_another_bound_is_told_as_far_as_the_audit_holds_it(tmp_path: Path) -> None:
    """Under the same bound a value is where it was, without one it is outside; where another one has it is not told."""
    bounds: dict[str, object] = {"recipient": ["guest"], "identifier": ["console"]}
    asks = {"task": f"{bang('read_file', path='public/welcome.md')}\n=", "returns": {"yes": {"type": "boolean"}}}
    async with running(tmp_path, json.dumps({"policy": {"tools": {"message": {"bounds": bounds}}}})) as owner:
        await owner.say(f"!sessions_spawn {json.dumps(asks)}")
        await owner.settled()
        await eventually(lambda: heard(owner))
        await owner.say(note("guest", "within"))
        await owner.say(note("owner", "to myself"))
        same = await replayed(owner, owner.app.config.policy)
        assert (told(same), dict(same.untold)) == ({}, {})
        added = await replayed(owner, bounded({**bounds, "path": ["public"]}))
        assert (told(added), dict(added.untold)) == ({}, {})
        gone = await replayed(owner, bounded(None))
        assert told(gone) == {("ALLOW", "REQUIRE_APPROVAL", "endorsed_cannot_steer", "message"): 1}
        other = await replayed(owner, bounded({**bounds, "recipient": ["guest", "team"]}))
        assert (told(other), sum(other.untold.values())) == ({}, 1)


def naming(*names: str) -> Document:
    bounds = {"bounds": {"identifier": [*names]}} if names else {}
    sections = {"mcp_servers": LABELLED, "tools": {**BOUNDED, "mail__forward": bounds}}
    served: dict[str, Mapping[str, str]] = {name: {} for name in BOUNDED}
    return load(sections, tools={**catalogue.ARGUMENTS, **served}, servers=("mail",))


async def test_another_bound_of_entries_is_told_as_far_as_the_audit_holds_it(tmp_path: Path) -> None:
    """An entry that a bound named is outside where no bound names any, and elsewhere it is not told."""
    async with running(tmp_path, made_entries(), parts=parts(*Drafts().tools)) as owner:
        await forward(owner, await drafted(owner))
        # Patterns hold no entry, so another one changes nothing.
        same = await replayed(owner, naming("mail-made-here", "mail-?"))
        assert (told(same), dict(same.untold)) == ({}, {})
        gone = await replayed(owner, naming())
        assert told(gone) == {("ALLOW", "REQUIRE_APPROVAL", "endorsed_cannot_steer", "mail__forward"): 1}
        other = await replayed(owner, naming("mail-unheard"))
        assert (told(other), sum(other.untold.values())) == ({}, 1)


async def heard(owner: Person) -> bool:
    return "[result of background session" in str(await owner.events())


async def test_records_that_do_not_hold_do_not_count(tmp_path: Path) -> None:
    async with running(tmp_path, written([])) as owner:
        await owner.say("hello")
        whole = await replayed(owner, owner.app.config.policy)
        key, store = session_keys(owner.sid).audit, owner.app.store
        first = await command(store, "LINDEX", key, 0)
        await command(store, "LSET", key, 1, cast("bytes", first))
        cut = await replayed(owner, owner.app.config.policy)
        assert (set(cut.broken), cut.broken[owner.sid].n) == ({owner.sid}, 2)
        assert cut.decisions < whole.decisions
        assert cut.changes.total() == 0


def test_the_facts_of_every_tool_of_ours_are_known_again() -> None:
    assert set(catalogue.ARGUMENTS) - FAMILIAR == {"session_initialize"}
    assert set(catalogue.ARGUMENTS) >= FAMILIAR
