"""State files as texts: written and read alike, migrated, refused, and hand-offs of less than 60 lines."""

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.sessions.workflows.definitions import StepDefinition, WorkflowDefinition
from bot.sessions.workflows.document import (
    LoggedDecision,
    OpenFinding,
    StepStatus,
    WorkflowDocument,
    WorkflowStep,
)
from bot.workflows.errors import NewerSchemaError
from bot.workflows.state_file import BrokenStateError, handoff, parsed, refuse_newer, rendered
from tests.bot.workflows.desk import HARBOUR

WHOLE: Final = WorkflowDocument(
    project="quay",
    branch="main",
    updated="2026-11-28T12:00:00.000Z",
    current_step="2",
    steps=MappingProxyType(
        {
            "1": WorkflowStep(
                "Survey",
                StepStatus.COMPLETE,
                "",
                "2026-11-28T11:00:00.000Z",
                "2026-11-28T12:00:00.000Z",
                ("a.md", "b.md"),
                ("in.md",),
            ),
            "2": WorkflowStep("Plan", StepStatus.IN_PROGRESS, "draft", "2026-11-28T12:00:00.000Z"),
            "2_5": WorkflowStep("Permits", StepStatus.SKIPPED),
            "3": WorkflowStep("Build"),
        }
    ),
    decisions=MappingProxyType({"pump": "steam"}),
    decision_log=(LoggedDecision("D1", "1", "pump", "steam", "cheap"),),
    open_findings=(OpenFinding("F1", "2", "Too shallow."),),
    review_audit=MappingProxyType({"1": {"passed_by": "ann"}}),
    workflow="wf_1",
)

TWO: Final[dict[str, Any]] = {
    "$schema": "https://example.com/session-state.json",
    "schema_version": "2.0",
    "project": "quay",
    "iac_tool": "Bicep",
    "region": "swedencentral",
    "branch": "main",
    "updated": "2026-03-04T10:15:00Z",
    "current_step": 2,
    "stale_threshold_ms": 600_000,
    "lock": {"owner": "agent-7", "heartbeat": "2026-03-04T10:14:00Z", "attempt_token": "x"},
    "decisions": {"budget": "1200 EUR", "compliance": ""},
    "open_findings": ["No backup of the sluice keys."],
    "decision_log": [{"id": "D001", "step": 1, "title": "pump", "choice": "steam"}],
    "review_audit": {"step_1": {"passes_planned": 1, "passes_executed": 1, "models_used": ["m"]}},
    "steps": {
        "1": {
            "name": "Requirements",
            "agent": "requirements",
            "status": "complete",
            "sub_step": None,
            "claim": {"owner": "agent-7"},
            "started": "2026-03-04T09:00:00Z",
            "completed": "2026-03-04T10:00:00+00:00",
            "artifacts": ["agent-output/quay/01-requirements.md"],
        },
        "2": {"status": "in_progress", "sub_step": "draft", "claim": None, "started": "2026-03-04T10:15:00Z"},
    },
}


def broken(**changes: object) -> str:
    """Return what is wrong with a file of today with some of its fields changed."""
    state = json.loads(rendered(WHOLE))
    for name, value in changes.items():
        where, _, last = name.replace("__", ".").rpartition(".")
        place = state
        for part in filter(None, where.split(".")):
            place = place[part.removeprefix("n")]
        place[last] = value
    with pytest.raises(BrokenStateError) as caught:
        parsed(json.dumps(state), "quay", HARBOUR)
    return str(caught.value)


def test_a_document_comes_back_as_it_was_written() -> None:
    assert parsed(rendered(WHOLE), "quay", HARBOUR) == WHOLE
    assert list(json.loads(rendered(WHOLE))) == [
        *("schema_version", "workflow", "revision", "project", "branch", "updated", "current_step", "steps"),
        "decisions",
        *("decision_log", "open_findings", "review_audit"),
    ]
    assert json.loads(rendered(WHOLE))["steps"]["3"] == {
        "name": "Build",
        "status": "pending",
        "sub_step": None,
        "started": None,
        "completed": None,
        "artifacts": [],
        "context_files_used": [],
    }


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_comes_back_as_it_is_written(title: str, text: str) -> None:
    made = replace(WHOLE, decisions=MappingProxyType({title: text}), open_findings=(OpenFinding("F1", "1", text),))
    once = rendered(made)
    assert rendered(parsed(once, "quay", HARBOUR)) == once
    once.encode("utf-8")


def test_schema_2_is_migrated() -> None:
    made = parsed(json.dumps(TWO), "quay", HARBOUR)
    assert (made.schema_version, made.current_step, made.branch) == ("3.0", "2", "main")
    first = made.steps["1"]
    assert (first.name, first.status, first.artifacts) == (
        *("Survey", StepStatus.COMPLETE),
        ("agent-output/quay/01-requirements.md",),
    )
    assert (made.steps["2"].sub_step, made.steps["3"].status) == ("draft", StepStatus.PENDING)
    assert [(one.step, one.text) for one in made.open_findings] == [("", "No backup of the sluice keys.")]
    assert made.decision_log == (LoggedDecision("D001", "1", "pump", "steam"),)
    assert made.decisions == {
        "iac_tool": "Bicep",
        "region": "swedencentral",
        "budget": "1200 EUR",
        "compliance": "",
    }
    text = rendered(made)
    for gone in ("lock", "claim", "stale_threshold_ms", "agent-7", "$schema"):
        assert gone not in text


@pytest.mark.parametrize("version", [{"schema_version": "1.0"}, {"version": "1.0"}, {"schema_version": ""}, {}])
def test_schema_1_and_none_are_migrated(version: dict[str, str]) -> None:
    words = {"1": "completed", "2": "in-progress", "2_5": "not_started", "3": ""}
    state = {**version, "project": "quay", "steps": {name: {"status": word} for name, word in words.items()}}
    state["steps"]["1"]["sub_step"] = "one of long ago"  # pyright: ignore[reportArgumentType, reportIndexIssue]
    made = parsed(json.dumps(state), "quay", HARBOUR)
    assert [step.status.value for step in made.steps.values()] == ["complete", "in_progress", "pending", "pending"]
    assert made.steps["1"].sub_step == ""
    assert made.current_step == "1"


@pytest.mark.parametrize("version", ["3.1", "4.0", "4", "10.2.1"])
def test_a_newer_version_is_refused_with_the_next_step(version: str) -> None:
    text = json.dumps({"schema_version": version})
    for read in (lambda: parsed(text, "quay", HARBOUR), lambda: refuse_newer(text)):
        with pytest.raises(NewerSchemaError, match=f"of schema {version}, and this program knows 3.0") as caught:
            read()
        assert caught.value.next_step == "upgrade lockgate, or move the file away"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000, '{"schema_version": "new"}', rendered(WHOLE)])
def test_what_is_not_newer_is_not_refused_as_such(text: str) -> None:
    refuse_newer(text)


def test_what_is_wrong_is_named() -> None:
    assert broken(schema_version="new") == "`new` is no version of the schema"
    assert broken(schema_version="2.5") == "`2.5` is no version of the schema"
    assert broken(project="lock") == "it is of the project `lock`"
    assert broken(updated="yesterday") == "`yesterday` is no time of ISO 8601"
    assert broken(updated=[]) == "`updated` is no text"
    assert broken(branch=True) == "`branch` is no text"
    assert broken(current_step="9") == "its `current_step` is no step of the workflow"
    assert broken(current_step=[1]) == "its `current_step` is no step of the workflow"
    assert broken(steps=3) == "`steps` is no object"
    assert broken(steps={}) == "it has no step `1`"
    assert broken(steps__n9={}) == "it has a step `n9`, which the workflow has not"
    assert broken(steps__n1__status="gone") == "step `1` has a status that there is not"
    assert broken(steps__n1__sub_step="gone") == "step `1` has no sub-step `gone`"
    assert broken(steps__n1__started="gone") == "`gone` is no time of ISO 8601"
    assert broken(steps__n1__artifacts="a") == "`artifacts` is no list"
    assert broken(steps__n1__artifacts=[1]) == "`artifacts` is no list of texts"
    assert broken(decisions=[1]) == "`decisions` is no object"
    assert broken(decision_log=[1]) == "decision 1 is no object"
    assert broken(open_findings=[1]) == "finding 1 is no object"
    assert broken(open_findings={"a": 1}) == "`open_findings` is no list"


@pytest.mark.parametrize("steps, artifacts", [(1, 0), (8, 5), (8, 300), (50, 0), (50, 40)])
def test_a_hand_off_has_less_than_60_lines(steps: int, artifacts: int) -> None:
    definition = WorkflowDefinition("long", "Long", "", tuple(StepDefinition(f"s{n}", "Step") for n in range(steps)))
    paths = tuple(f"a/{n}.md" for n in range(artifacts))
    state = {step.id: WorkflowStep(step.name, artifacts=paths) for step in definition.steps[:1]}
    state |= {step.id: WorkflowStep(step.name) for step in definition.steps[1:]}
    document = WorkflowDocument("quay", current_step="s0", steps=MappingProxyType(state), updated=WHOLE.updated)
    lines = handoff(document, definition).splitlines()
    assert len(lines) < 60
    assert "- Next step: s0 Step" in lines
    shown = sum(line.startswith("- a/") for line in lines)
    more = [line for line in lines if line.startswith("- ... and") and "steps" not in line]
    assert shown == artifacts or more == [f"- ... and {artifacts - shown} more, see 00-session-state.json"]
    assert ("- none" in lines) == (artifacts == 0)
    done = replace(document, steps=MappingProxyType({"s0": WorkflowStep("Step", StepStatus.COMPLETE)}))
    assert "- Next step: none" in handoff(done, definition)
