"""Held items at the gate: what is told of them, what a call that refers to them is decided by, and what it gives."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.access.approvals import binding
from bot.access.decision_context import Call, DecisionContext, key
from bot.core.ids import held_id
from bot.gate.calls import UNSEEN
from bot.gate.references import REFERS
from bot.gate.routes import ELSEWHERE
from bot.sessions.approvals import Approval, ApprovalQuestion, ApprovalState
from bot.sessions.log.events import DeferredResult
from bot.tools import catalogue
from bot.tools.base import CallFacts, RefusedCallError, Result, ToolContext
from bot.tools.clock import CurrentTime
from bot.tools.files import ReadFile, WriteFile, placed
from bot.tools.message import Message
from bot.tools.references import HOLD, UNKNOWN, Admit, AdmitArguments, asked, offered
from policy.decision import Verdict
from policy.document.model import Document, load
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Effect, Role
from tests.bot.kit import (
    CONFIDENTIAL,
    DIRTY,
    HOME,
    INTERNAL,
    NOW,
    RESTRICTED,
    TOP,
    Probe,
    TextArguments,
    blocked_by,
    call,
    document,
    folder_of_files,
    gate,
    rule,
    standing,
    tool_call,
    tool_context,
    unrecorded,
)
from tests.people import principal

pytestmark = pytest.mark.anyio

PUBLIC_UNTRUSTED = parse("PUBLIC~")


REF: dict[str, JsonValue] = {"$ref": "held-a"}


def item(label: Label = CONFIDENTIAL, text: str = "secret", floor: Label | None = None) -> DeferredResult:
    """Return something that is held."""
    return DeferredResult("held-a", text, label, label if floor is None else floor)


def holding(*held: DeferredResult, taint: Label = PUBLIC, **changes: object) -> DecisionContext:
    """Return a standing of a session that holds something."""
    return standing(taint, held=held, **changes)


def say(recipient: str = "owner") -> dict[str, JsonValue]:
    """Return the arguments of a `message` that refers to what is held."""
    return {"channel": "console", "recipient": recipient, "text": REF}


async def test_a_held_result_raises_nothing_and_is_told_by_a_notice() -> None:
    probe = Probe(declared=CallFacts(result=INTERNAL), result=Result("secret", CONFIDENTIAL))
    here = standing()
    one = gate([probe])
    prepared = one.calls.prepare(here, call("probe", {HOLD: True}))
    assert prepared.decision.verdict is Verdict.ALLOW
    assert prepared.decision.label_after == PUBLIC
    response = await one.results.respond(here, prepared, await one.run(here, prepared, unrecorded))
    ref = held_id(key(here, call("probe")))
    assert response.held == DeferredResult(ref, "secret", CONFIDENTIAL, INTERNAL, tool="probe", at=here.now)
    assert response.label == PUBLIC
    assert "secret" not in response.text
    assert "labelled" not in response.text
    assert probe.said == [TextArguments()]


async def test_the_notice_is_the_same_whatever_is_held_and_tells_the_floor_to_who_may_know_it() -> None:
    told = set[str]()
    here = standing(INTERNAL)
    for result in (Result("a", CONFIDENTIAL), Result("much longer", INTERNAL), Result("x", RESTRICTED, failed=True)):
        one = gate([Probe(declared=CallFacts(result=INTERNAL), result=result)])
        prepared = one.calls.prepare(here, call("probe", {HOLD: True}))
        told.add((await one.results.respond(here, prepared, await one.run(here, prepared, unrecorded))).text)
    (notice,) = told
    assert "labelled INTERNAL or higher" in notice


async def test_what_flows_to_no_ceiling_is_not_even_held() -> None:
    here = standing(ceiling=INTERNAL)
    declared = gate([Probe(declared=CallFacts(result=CONFIDENTIAL))])
    assert blocked_by(declared.calls.prepare(here, call("probe", {HOLD: True})).decision) == {
        "read_is_decided_before_it_happens"
    }
    found = gate([Probe(result=Result("secret", CONFIDENTIAL))])
    prepared = found.calls.prepare(here, call("probe", {HOLD: True}))
    response = await found.results.respond(here, prepared, await found.run(here, prepared, unrecorded))
    assert response.held is not None
    assert (response.held.label, "secret" in response.held.text) == (PUBLIC, False)


async def test_a_held_read_need_not_flow_to_the_model(tmp_path: Path) -> None:
    files = folder_of_files(tmp_path)
    (tmp_path / "files/confidential/x.md").write_text("secret")
    one = gate([ReadFile(files), Admit()], document(models={"offline": {"clearance": "PUBLIC"}}))
    arguments: dict[str, JsonValue] = {"path": "confidential/x.md"}
    assert blocked_by(one.calls.prepare(standing(), call("read_file", arguments)).decision)
    prepared = one.calls.prepare(standing(), call("read_file", {**arguments, HOLD: True}))
    response = await one.results.respond(standing(), prepared, await one.run(standing(), prepared, unrecorded))
    assert response.held is not None
    assert (response.held.text, response.held.label) == ("secret", parse("CONFIDENTIAL~"))
    assert blocked_by(one.calls.prepare(holding(item()), call("admit", {"ref": "held-a"})).decision)


@pytest.mark.parametrize(
    "arguments, why",
    [
        ({HOLD: 1}, "`_hold` is true or false"),
        ({"text": {"$ref": "held-b"}}, UNKNOWN),
        ({"text": {"$ref": 1}}, "with nothing beside it"),
        ({"more": {"a": [{"$ref": "held-a", "b": 1}]}}, "with nothing beside it"),
        (None, "must be a JSON object"),
    ],
)
def test_what_is_not_understood_is_refused(arguments: dict[str, JsonValue] | None, why: str) -> None:
    with pytest.raises(RefusedCallError, match=why.replace("(", r"\(")):
        asked(Probe(), arguments, (item(),))


def test_references_are_replaced_wherever_they_stand_and_once() -> None:
    held = item(text='{"$ref": "held-a"}')
    taken = asked(Probe(), {"text": REF, "more": {"list": [REF, "x", 1], "deep": {"y": REF}}}, (held,))
    text = '{"$ref": "held-a"}'
    assert taken.whole() == {"text": text, "more": {"list": [text, "x", 1], "deep": {"y": text}}}
    assert taken.opened()["text"] == "held-a"
    assert taken.shown()["text"] == {"$ref": "held-a", "label": "CONFIDENTIAL", "holds": text}
    assert taken.refers == (held,)


def test_a_tool_that_reads_nothing_takes_neither() -> None:
    for tool in (CurrentTime(), Admit()):
        assert asked(tool, {HOLD: True, "x": REF}, ()).arguments == {HOLD: True, "x": REF}
        assert HOLD not in offered(tool).get("properties", {})
    assert HOLD in offered(Message())["properties"]


def test_the_sink_is_compared_with_the_join() -> None:
    one = gate([Message()])
    assert one.calls.prepare(holding(item()), call("message", say())).decision.verdict is Verdict.ALLOW
    refused = one.calls.prepare(holding(item()), call("message", say("guest")))
    assert blocked_by(refused.decision) == {"no_write_down"}
    assert not refused.concealed


def test_the_sink_is_compared_with_what_an_item_turned_out_to_be() -> None:
    higher = holding(item(floor=PUBLIC))
    one = gate([Message()])
    refused = one.calls.prepare(higher, call("message", say("guest")))
    assert blocked_by(refused.decision) == {"no_write_down"}
    assert refused.concealed
    # The reason tells of the content, so it is held at the same label.
    assert one.results.kept(higher, refused, "the reason", PUBLIC).label == CONFIDENTIAL
    sent = one.calls.prepare(higher, call("message", say()))
    assert (sent.decision.verdict, sent.carried) == (Verdict.ALLOW, CONFIDENTIAL)


def test_a_rule_about_what_is_said_sees_the_join() -> None:
    silent = gate([Message()], rule(hook="PRE_OUTPUT", taint=">= CONFIDENTIAL", action="BLOCK"))
    assert silent.calls.prepare(holding(item(INTERNAL)), call("message", say())).decision.verdict is Verdict.ALLOW
    assert blocked_by(silent.calls.prepare(holding(item()), call("message", say())).decision) == {"mine"}


async def test_what_is_sent_and_what_comes_back_carry_the_join() -> None:
    one = gate([Message()])
    here = holding(item())
    prepared = one.calls.prepare(here, call("message", say()))
    response = await one.results.respond(here, prepared, await one.run(here, prepared, unrecorded))
    assert [(sent.text, sent.label) for sent in response.deliver] == [("secret", CONFIDENTIAL)]
    assert response.held is not None
    assert response.held.label == CONFIDENTIAL


@pytest.mark.parametrize("taint", [PUBLIC, CONFIDENTIAL, TOP], ids=str)
@pytest.mark.parametrize("held", [item(), item(floor=PUBLIC), item(PUBLIC)], ids=["known", "not known", "public"])
def test_a_result_is_held_for_what_the_call_refers_to_whatever_the_model_asks(
    held: DeferredResult, taint: Label
) -> None:
    """Whatever that is: else whether it is held would tell its label, and whether the call is made its content."""
    one = gate([Probe()])
    assert one.calls.prepare(holding(held, taint=taint), call("probe", {"text": REF})).hold
    assert not one.calls.prepare(holding(held, taint=taint), call("probe")).hold
    asked = one.calls.prepare(holding(held, taint=taint), call("probe", {"text": REF, HOLD: False}))
    assert (asked.decision.verdict, asked.decision.label_after, asked.open) == (Verdict.BLOCK, taint, None)
    assert REFERS in str(asked.decision)


async def test_a_file_carries_the_join(tmp_path: Path) -> None:
    files = folder_of_files(tmp_path)
    one = gate([WriteFile(files)])
    here = holding(item(INTERNAL))
    prepared = one.calls.prepare(here, call("write_file", {"path": "internal/x.md", "text": REF}))
    await one.run(here, prepared, unrecorded)
    found = await asyncio.to_thread(files.find, placed("internal/x.md", tool_context()), INTERNAL)
    assert found is not None
    assert found.label == parse("INTERNAL~")


def test_a_tool_that_lets_content_choose_a_way_is_not_called() -> None:
    class Follows(Probe):
        def declare(self, arguments: TextArguments, context: ToolContext) -> CallFacts:
            return CallFacts(clearance=INTERNAL if arguments.text == "secret" else TOP)

    refused = gate([Follows(effect=Effect.SEND)]).calls.prepare(holding(item(INTERNAL)), call("probe", {"text": REF}))
    assert blocked_by(refused.decision) == {"fails_closed"}
    assert refused.concealed
    assert ELSEWHERE in [outcome.message for outcome in refused.decision.outcomes]


@pytest.mark.parametrize("taint, asks", [(PUBLIC, False), (DIRTY, True)])
def test_untrusted_data_by_reference_asks_nobody(taint: Label, *, asks: bool) -> None:
    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    prepared = gate([probe]).calls.prepare(holding(item(DIRTY), taint=taint), call("probe", {"text": REF}))
    assert (prepared.decision.verdict is Verdict.REQUIRE_APPROVAL) == asks


def _asking(text: str, label: Label = INTERNAL) -> DecisionContext:
    return holding(item(label, text), taint=DIRTY)


def _approval(here: DecisionContext, asked_for: Call) -> Approval:
    return Approval(
        id="a",
        sid="s1",
        generation=1,
        turn="t1",
        call="c1",
        tool="probe",
        binding=binding(here, asked_for, here.held),
        label=INTERNAL,
        principal="owner",
        question=ApprovalQuestion("probe", {}),
        rules=("untrusted_cannot_command",),
        expires_at=NOW + 1,
        resolved_by="owner",
    )


def test_an_approval_is_bound_to_what_is_referred_to() -> None:
    here = _asking("secret")
    asked_for = call("probe", {"text": REF})
    bindings = {binding(one, asked_for, one.held) for one in (here, _asking("other"), _asking("secret", TOP))}
    assert len({*bindings, binding(here, asked_for)}) == 4
    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    one, approval = gate([probe]), _approval(here, asked_for)
    for state, verdict in ((ApprovalState.APPROVED, Verdict.ALLOW), (ApprovalState.DENIED, Verdict.REQUIRE_APPROVAL)):
        prepared = one.calls.prepare(here, asked_for, (replace(approval, state=state),))
        assert prepared.decision.verdict is verdict
        assert prepared.shown == {"text": {"$ref": "held-a", "label": "INTERNAL", "holds": "secret"}}


def test_an_approval_counts_for_nothing_that_was_not_shown() -> None:
    here, asked_for = _asking("secret"), call("probe", {"text": REF})
    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    unshown = replace(
        _approval(here, asked_for), state=ApprovalState.APPROVED, question=ApprovalQuestion("probe", {}, withheld=True)
    )
    prepared = gate([probe]).calls.prepare(here, asked_for, (unshown,))
    assert (prepared.decision.verdict, prepared.told.verdict) == (Verdict.BLOCK, Verdict.ALLOW)
    assert UNSEEN in str(prepared.decision)
    assert prepared.use == "a"


def test_nobody_is_asked_where_what_is_sent_may_not_be_shown() -> None:
    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    here = holding(item(), taint=DIRTY, destination=Destination(str(HOME), "console", INTERNAL))
    assert blocked_by(gate([probe]).calls.prepare(here, call("probe", {"text": REF})).decision) == {"approval_is_given"}
    nowhere = holding(item(), taint=DIRTY, destination=Destination(str(HOME), "console", None))
    assert blocked_by(gate([probe]).calls.prepare(nowhere, call("probe", {"text": REF})).decision) == {
        "approval_is_given"
    }


def test_what_a_content_decides_is_concealed() -> None:
    blocking = rule(hook="PRE_TOOL_CALL", action="BLOCK", pattern="email")
    probe = Probe()
    prepared = gate([probe], blocking).calls.prepare(holding(item(text="a@example.com")), call("probe", {"text": REF}))
    assert (prepared.decision.verdict, prepared.told.verdict) == (Verdict.BLOCK, Verdict.ALLOW)
    assert prepared.concealed
    assert prepared.beside == CONFIDENTIAL
    clean = gate([probe], blocking).calls.prepare(holding(item()), call("probe", {"text": REF}))
    assert (clean.concealed, clean.beside) == (False, PUBLIC)


def _ruled(action: str) -> Document:
    """Return a policy in which a rule looks for a text in calls, and others than the asker may approve."""
    others = {name: principal(f"console:{name}", role="admin") for name in ("ann", "bea")}
    owner = principal("console:owner")
    entry: dict[str, object] = {"id": "mine", "hook": "PRE_TOOL_CALL", "pattern": "email", "action": action}
    if action == "REQUIRE_APPROVAL":
        entry["approvers"] = ["admin"]
    return document(rules=[entry], principals={"owner": owner, **others})


def test_what_only_a_content_asks_about_is_refused_without_asking() -> None:
    asks, probe = _ruled("REQUIRE_APPROVAL"), Probe()
    assert gate([probe], asks).calls.prepare(standing(), call("probe", {"text": "a@example.com"})).decision.verdict is (
        Verdict.REQUIRE_APPROVAL
    )
    prepared = gate([probe], asks).calls.prepare(holding(item(text="a@example.com")), call("probe", {"text": REF}))
    assert (prepared.decision.verdict, prepared.told.verdict) == (Verdict.BLOCK, Verdict.ALLOW)
    assert prepared.concealed


@pytest.mark.parametrize("text", ["a@example.com", "", "nothing"])
def test_whether_people_are_asked_is_decided_without_looking(text: str) -> None:
    """What refuses the call for its content does so once they have answered, and their answer is spent by that."""
    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP, consequential=True))
    one, here, asked_for = gate([probe], _ruled("BLOCK")), _asking(text), call("probe", {"text": REF})
    first = one.calls.prepare(here, asked_for)
    assert (first.decision.verdict, first.concealed) == (Verdict.REQUIRE_APPROVAL, False)
    approval = replace(_approval(here, asked_for), state=ApprovalState.APPROVED)
    second = one.calls.prepare(here, asked_for, (approval,))
    assert second.decision.verdict is (Verdict.BLOCK if "@" in text else Verdict.ALLOW)
    assert (second.told.verdict, second.use) == (Verdict.ALLOW, "a")


async def test_simulating_tells_no_label_above_the_floor() -> None:
    class Known(Probe):
        async def foresee(self, _arguments: TextArguments, context: ToolContext) -> list[str]:
            return [str(context.session.taint)]

    one = gate([Known()])
    for label in (INTERNAL, CONFIDENTIAL):
        report = await one.calls.simulate(holding(item(label, floor=INTERNAL)), "probe", {"text": REF}, TOP)
        assert report["depends"] == ["the text of the reference", "INTERNAL", "the label of the data that are read"]


@pytest.mark.parametrize("text", ["x" * 1_000_001, ""])
def test_a_content_that_does_not_fit_is_refused_without_telling(text: str) -> None:
    prepared = gate([Message()]).calls.prepare(holding(item(text=text)), call("message", say()))
    assert blocked_by(prepared.decision) == {"fails_closed"}
    assert prepared.told.verdict is Verdict.ALLOW


def test_a_declaration_that_fails_on_a_content_is_refused_without_telling() -> None:
    class Picky(Probe):
        def declare(self, arguments: TextArguments, context: ToolContext) -> CallFacts:
            if arguments.text == "secret":
                raise ValueError("secret")
            return CallFacts()

    prepared = gate([Picky()]).calls.prepare(holding(item()), call("probe", {"text": REF}))
    assert blocked_by(prepared.decision) == {"fails_closed"}
    assert prepared.told.verdict is Verdict.ALLOW


def test_a_reference_does_not_choose_the_way(tmp_path: Path) -> None:
    one = gate([ReadFile(folder_of_files(tmp_path))])
    here = holding(item(DIRTY, "public/x.md"))
    prepared = one.calls.prepare(here, call("read_file", {"path": REF}))
    assert prepared.decision.verdict is Verdict.BLOCK


def test_the_policy_holds_whatever_the_model_wants(tmp_path: Path) -> None:
    one = gate([CurrentTime(), Probe()], document(tools={"current_time": {"hold": True}}))
    assert one.calls.prepare(standing(), call("current_time")).hold
    assert not one.calls.prepare(standing(), call("probe")).hold
    holds_files = gate([ReadFile(folder_of_files(tmp_path))], document(tools={"read_file": {"hold": True}}))
    refused = holds_files.calls.prepare(standing(), call("read_file", {"path": "public/x.md", HOLD: False}))
    assert blocked_by(refused.decision) == {"fails_closed"}


async def test_simulating_tells_what_is_known_without_looking() -> None:
    blocking = rule(hook="PRE_TOOL_CALL", action="BLOCK", pattern="email")
    one = gate([Probe()], blocking)
    for text in ("a@example.com", "nothing"):
        report = await one.calls.simulate(holding(item(text=text)), "probe", {"text": REF}, TOP)
        assert (report["verdict"], report["depends"]) == (
            "ALLOW",
            ["the text of the reference", "the label of the data that are read"],
        )


async def test_admitting_is_a_read() -> None:
    one = gate([Admit()])
    here = holding(item(CONFIDENTIAL, floor=INTERNAL))
    prepared = one.calls.prepare(here, call("admit", {"ref": "held-a"}))
    assert prepared.decision.label_after == INTERNAL
    response = await one.results.respond(here, prepared, await one.run(here, prepared, unrecorded))
    assert (response.text, response.label) == ("secret", CONFIDENTIAL)
    low = holding(item(CONFIDENTIAL, floor=INTERNAL), ceiling=INTERNAL, role=Role.MEMBER)
    prepared = one.calls.prepare(low, call("admit", {"ref": "held-a"}))
    response = await one.results.respond(low, prepared, await one.run(low, prepared, unrecorded))
    assert (response.text, response.label) == (UNKNOWN, INTERNAL)
    assert blocked_by(one.calls.prepare(standing(), call("admit", {"ref": "held-a"})).decision) == {"fails_closed"}
    assert (await Admit().run(AdmitArguments(ref="held-x"), *tool_call())).text == UNKNOWN


@pytest.mark.parametrize("said, verdict", [(None, Verdict.REQUIRE_APPROVAL), ("allow", Verdict.ALLOW)])
def test_untrusted_text_by_reference_asks_at_a_server_unless_the_operator_allows_it(
    said: str | None, verdict: Verdict
) -> None:
    sections: dict[str, object] = {"mcp_servers": {"mail": {"floor": "PUBLIC", "clearance": "RESTRICTED"}}}
    if said is not None:
        sections["tools"] = {"mail__send": {"untrusted_content": said}}
    policy = load(sections, tools=[*catalogue.NAMES, "mail__send"], servers=["mail"])
    declared = CallFacts(consequential=True)
    tool = Probe("mail__send", declared=declared, effect=Effect.SEND, server="mail")
    one = gate([tool], policy)
    given: dict[str, JsonValue] = {"text": REF}
    assert one.calls.prepare(holding(item(PUBLIC_UNTRUSTED)), call("mail__send", given)).decision.verdict is verdict
    trusted = one.calls.prepare(holding(item(PUBLIC)), call("mail__send", given))
    assert trusted.decision.verdict is Verdict.ALLOW
    # Where only the text itself is UNTRUSTED, a question would tell of it.
    hidden = one.calls.prepare(holding(item(PUBLIC_UNTRUSTED, floor=PUBLIC)), call("mail__send", given))
    assert hidden.decision.verdict is (Verdict.ALLOW if said else Verdict.BLOCK)


@pytest.mark.parametrize("label", [PUBLIC, PUBLIC_UNTRUSTED])
async def test_untrusted_text_by_reference_is_delivered_with_a_mark(label: Label) -> None:
    one, here = gate([Message()]), holding(item(label))
    prepared = one.calls.prepare(here, call("message", say("owner")))
    response = await one.results.respond(here, prepared, await one.run(here, prepared, unrecorded))
    (delivery,) = response.deliver
    assert delivery.untrusted is label.untrusted
