"""What events come to, and what an edit of the state adds to that: pure."""

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from bot.sessions.workflows.document import LoggedDecision, OpenFinding, StepStatus, WorkflowDocument
from bot.sessions.workflows.events import (
    DecisionMade,
    FileTakenIn,
    FindingAdded,
    FindingRemoved,
    StateRecovered,
    StepCompleted,
    StepSkipped,
    StepStarted,
    SubStepDone,
    UnknownBody,
    WorkflowBody,
    WorkflowEvent,
    WorkflowStarted,
)
from bot.workflows.edits import edit_between
from bot.workflows.folding import Fold, fold, iso, workflow_id
from bot.workflows.state_file import parsed, rendered
from policy.labels import PUBLIC
from tests.bot.workflows.desk import HARBOUR

NOW: Final = 1_795_775_400_000
BEGUN: Final[tuple[WorkflowBody, ...]] = (
    WorkflowStarted(HARBOUR),
    StepStarted("1", ("in.md",)),
    SubStepDone("1", "depths", ("a.md",)),
    DecisionMade("1", "pump", "steam", "cheap"),
    DecisionMade("1", "gate", "oak"),
    FindingAdded("1", "Too shallow."),
    FindingAdded("1", "Too narrow."),
)

_bodies = st.sampled_from(
    (
        *BEGUN,
        *(StepStarted("2"), SubStepDone("2", "draft", ("b.md",)), StepCompleted("1"), StepCompleted("2", "ann")),
        *(StepSkipped("2_5"), StepStarted("9"), SubStepDone("9", "x"), FindingRemoved("3"), StateRecovered("x")),
        UnknownBody("later", "{"),
    )
)


def events(*bodies: WorkflowBody) -> tuple[WorkflowEvent, ...]:
    return tuple(
        WorkflowEvent(number, NOW + number * 1000, PUBLIC, body, "ann") for number, body in enumerate(bodies, start=1)
    )


def folded(*bodies: WorkflowBody) -> Fold:
    found = fold("owner", "quay", events(*bodies))
    assert found is not None
    return found


def edited(after: WorkflowDocument, *, by_person: bool = True) -> WorkflowDocument:
    """Return the state after a file that says this was taken in."""
    edit = edit_between(folded(*BEGUN), after, by_person=by_person)
    return folded(*BEGUN, FileTakenIn(edit.changes)).document if edit.changes else folded(*BEGUN).document


def test_nothing_comes_of_events_without_a_beginning() -> None:
    assert fold("owner", "quay", ()) is None
    assert fold("owner", "quay", events(StepStarted("1"))) is None


def test_times_are_of_the_events() -> None:
    document = folded(*BEGUN, StepCompleted("1")).document
    assert (iso(0), iso(1001)) == ("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:01.001Z")
    assert document.updated == iso(NOW + 8000) == document.steps["1"].completed
    assert document.steps["1"].started == iso(NOW + 2000)
    assert document.workflow == workflow_id("owner", "quay") != workflow_id("ann", "quay")


@given(st.lists(_bodies, max_size=20), st.data())
def test_more_events_take_nothing_away_that_no_event_took(bodies: list[WorkflowBody], data: st.DataObject) -> None:
    every = events(WorkflowStarted(HARBOUR), *bodies)
    some = [event for event in every[1:] if data.draw(st.booleans())]
    whole, part = fold("owner", "quay", every), fold("owner", "quay", (every[0], *some))
    assert whole is not None
    assert part is not None
    for name, step in part.document.steps.items():
        assert set(step.artifacts) <= set(whole.document.steps[name].artifacts)
    assert set(part.document.decisions) <= set(whole.document.decisions)
    assert len(part.document.decision_log) <= len(whole.document.decision_log)
    assert parsed(rendered(whole.document), "quay", HARBOUR) == whole.document


def test_a_person_changes_adds_and_removes_entries() -> None:
    now = folded(*BEGUN).document
    (first, second), (shallow, _) = now.decision_log, now.open_findings
    after = replace(
        now,
        decision_log=(replace(second, choice="steel"), LoggedDecision("", "1", "paint", "red")),
        decisions=MappingProxyType({"gate": "steel", "paint": "red"}),
        open_findings=(replace(shallow, text="Far too shallow."), OpenFinding("new", "2", "No paint.")),
        review_audit=MappingProxyType({"1": {"passed_by": "bob"}}),
    )
    found = edited(after)
    assert [(one.id, one.choice) for one in found.decision_log] == [("D2", "steel"), ("D3", "red")]
    assert found.decisions == {"gate": "steel", "paint": "red"}
    assert [(one.id, one.text) for one in found.open_findings] == [("F1", "Far too shallow."), ("F3", "No paint.")]
    assert found.review_audit == {"1": {"passed_by": "bob"}}
    assert first.id == "D1"
    # What is removed again is gone for those who know of that.
    second_edit = edit_between(folded(*BEGUN), replace(after, review_audit=MappingProxyType({})), by_person=True)
    assert "review_audit" not in second_edit.changes


def test_what_an_agent_may_have_written_passes_no_gate_and_settles_no_finding() -> None:
    now = folded(*BEGUN).document
    steps = {**now.steps, "2": replace(now.steps["2"], status=StepStatus.SKIPPED, artifacts=("b.md",))}
    after = replace(now, steps=MappingProxyType(steps), open_findings=(), current_step="3", branch="works")
    found = edited(after, by_person=False)
    assert (found.steps["2"].status, found.steps["2"].artifacts) == (StepStatus.PENDING, ("b.md",))
    assert (found.current_step, found.branch, len(found.open_findings)) == ("1", "works", 2)
    refused = edit_between(folded(*BEGUN), after, by_person=False).refused
    assert refused == ("the gate of step 2", "changes of findings")
    person = edited(after)
    assert (person.steps["2"].status, person.current_step, person.open_findings) == (StepStatus.SKIPPED, "3", ())


def test_a_document_without_a_step_changes_nothing_of_it() -> None:
    now = folded(*BEGUN).document
    steps = {name: step for name, step in now.steps.items() if name != "1"}
    assert edit_between(folded(*BEGUN), replace(now, steps=MappingProxyType(steps)), by_person=True).changes == ""


def test_an_audit_entry_that_a_person_removes_is_gone() -> None:
    passed = folded(*BEGUN, StepCompleted("1", "ann"))
    after = replace(passed.document, review_audit=MappingProxyType({}))
    edit = edit_between(passed, after, by_person=True)
    found = folded(*BEGUN, StepCompleted("1", "ann"), FileTakenIn(edit.changes)).document
    assert passed.document.review_audit["1"]
    assert not found.review_audit
