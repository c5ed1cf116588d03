"""The gate's crossings, each decided on real documents and real tools."""

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from pydantic import JsonValue

from bot.approvals import binding
from bot.errors import StoreGoneError
from bot.gate import FAILED, Gate, Prepared
from bot.sessions.values import Approval, ApprovalState, Delivery, DeliveryState, NewDelivery
from bot.standing import Call, Standing
from bot.tools.base import Arguments, Declared, Result, Scene, Tool
from bot.tools.clock import CurrentTime
from bot.tools.files import ListFiles, ReadFile, WriteFile
from bot.tools.introspection import SimulateToolCall
from bot.tools.message import Message
from channels.base import Audience
from channels.message import Address
from policy.decision import Decision, Remedy, Verdict
from policy.document import Document, load
from policy.explain import shown
from policy.labels import PUBLIC, Label, parse
from policy.request import Destination, Effect, Hook
from tests.bot.kit import (
    CONFIDENTIAL,
    DIRTY,
    GUEST,
    HOME,
    INTERNAL,
    NOW,
    RESTRICTED,
    TOP,
    Probe,
    TextArguments,
    call,
    document,
    folder_of_files,
    gate,
    often,
    send,
    standing,
)

pytestmark = pytest.mark.anyio

CARD = "4111 1111 1111 1111"


def rule(**fields: object) -> Document:
    """Return the shipped policy with one rule."""
    return document(rules=[{"id": "mine", **fields}])


def approval(where: Standing, asked: Call, state: ApprovalState = ApprovalState.APPROVED) -> Approval:
    """Return an approval that fits a call exactly."""
    return Approval(
        id="a1",
        sid=where.sid,
        generation=where.generation,
        turn=where.turn,
        call=asked.id,
        tool=asked.tool,
        binding=binding(where, asked),
        label=where.taint,
        principal=where.principal,
        question={},
        rules=("untrusted_cannot_command",),
        expires_at=NOW + 1,
        state=state,
    )


def delivery(text: str = "hello", label: Label = PUBLIC) -> Delivery:
    return Delivery("s1", "k", str(GUEST), text, label, "message", "t1", DeliveryState.SENDING, NOW, 1, 1)


def blocked_by(decision: Decision) -> set[str]:
    assert decision.verdict is Verdict.BLOCK
    return {outcome.rule for outcome in decision.outcomes if outcome.verdict is Verdict.BLOCK}


# --- what a call names -----------------------------------------------------------------------------


async def test_a_tool_that_does_not_exist_is_blocked_and_cannot_run() -> None:
    asked = gate([]).prepare(standing(), call("format_disk"))
    assert blocked_by(asked.decision) == {"unknown_is_worst"}
    assert asked.barrier
    assert not asked.repeatable
    with pytest.raises(RuntimeError, match="not allowed"):
        await gate([]).run(standing(), asked)


async def test_a_blocked_call_cannot_run_even_if_its_tool_exists() -> None:
    probe = Probe(declared=Declared(result=TOP, clearance=PUBLIC))
    keeper = gate([probe])
    asked = keeper.prepare(standing(CONFIDENTIAL), call("probe"))
    assert blocked_by(asked.decision) == {"no_write_down"}
    with pytest.raises(RuntimeError):
        await keeper.run(standing(CONFIDENTIAL), asked)
    assert not probe.ran


async def test_a_call_that_waits_for_approval_cannot_run() -> None:
    keeper = gate([Message()])
    asked = keeper.prepare(standing(DIRTY), send("hi"))
    assert asked.decision.verdict is Verdict.REQUIRE_APPROVAL
    with pytest.raises(RuntimeError):
        await keeper.run(standing(DIRTY), asked)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(None, "must be a JSON object", id="no object"),
        pytest.param({"text": 1}, "`text` (string_type)", id="wrong type"),
        pytest.param({"text": "x", "session_id": "s2"}, "`session_id` (extra_forbidden)", id="smuggled session"),
        pytest.param({"label": "PUBLIC"}, "`label` (extra_forbidden)", id="smuggled label"),
        pytest.param({"principal": "owner", "taint": "PUBLIC"}, "`principal` (extra_forbidden)", id="smuggled person"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_by_name(arguments: object, told: str) -> None:
    probe = Probe()
    asked = gate([probe]).prepare(standing(), Call("c1", "probe", arguments))  # pyright: ignore[reportArgumentType] - what a model may send
    assert blocked_by(asked.decision) == {"fails_closed"}
    assert told in asked.decision.outcomes[-1].message
    assert asked.accepted is None


async def test_a_refusal_never_repeats_the_values_it_refused() -> None:
    asked = gate([Probe()]).prepare(standing(), call("probe", {"text": "x", "secret": "hunter2"}))
    assert "hunter2" not in Gate.explained(asked.decision, TOP, "probe")


async def test_a_tool_may_refuse_a_call_before_anything_is_touched() -> None:
    asked = gate([Message()]).prepare(standing(), send("hi", recipient="gest"))
    assert blocked_by(asked.decision) == {"fails_closed"}
    assert "guest" in asked.decision.outcomes[-1].message


async def test_a_declaration_that_fails_blocks_and_tells_nothing() -> None:
    class Broken(Probe):
        def declare(self, arguments: TextArguments, scene: Scene) -> Declared:
            raise KeyError("the password is hunter2")

    asked = gate([Broken()]).prepare(standing(), call("probe"))
    assert blocked_by(asked.decision) == {"fails_closed"}
    assert "hunter2" not in Gate.explained(asked.decision, TOP, "probe")


async def test_arguments_too_deep_to_look_into_are_blocked() -> None:
    deep: dict[str, JsonValue] = {}
    for _ in range(5_000):
        deep = {"more": deep}
    assert blocked_by(gate([Probe()]).prepare(standing(), call("probe", deep)).decision) == {"fails_closed"}


# --- labels ----------------------------------------------------------------------------------------


async def test_read_is_decided_before_it_happens(tmp_path: Path) -> None:
    keeper = gate([ReadFile(folder_of_files(tmp_path))])
    asked = keeper.prepare(standing(ceiling=INTERNAL), call("read_file", {"path": "confidential/x.md"}))
    assert blocked_by(asked.decision) == {"read_is_decided_before_it_happens"}
    assert asked.decision.label_after == PUBLIC


async def test_a_provider_below_the_data_refuses_the_read(tmp_path: Path) -> None:
    policy = document(models={"offline": {"clearance": "INTERNAL"}})
    keeper = gate([ReadFile(folder_of_files(tmp_path))], policy)
    asked = keeper.prepare(standing(), call("read_file", {"path": "confidential/x.md"}))
    assert blocked_by(asked.decision) == {"read_is_decided_before_it_happens"}
    assert Remedy.OTHER_MODEL in asked.decision.remedies


async def test_an_unlisted_provider_may_read_public_alone() -> None:
    keeper = gate([], model="openai:gpt-5")
    assert keeper.invoke(standing()).verdict is Verdict.ALLOW
    assert blocked_by(keeper.invoke(standing(INTERNAL))) == {"read_is_decided_before_it_happens"}


async def test_a_result_that_is_higher_than_declared_is_joined_never_lowered() -> None:
    probe = Probe(declared=Declared(result=INTERNAL), result=Result('{"taint": "PUBLIC"}', CONFIDENTIAL))
    keeper = gate([probe])
    asked = keeper.prepare(standing(), call("probe"))
    answer = await keeper.respond(standing(), asked, await keeper.run(standing(), asked))
    assert answer.label == CONFIDENTIAL
    lower = await keeper.respond(standing(), asked, Result('{"_classification": "PUBLIC"}', PUBLIC))
    assert lower.label == INTERNAL


async def test_an_exception_is_a_constant_text_with_the_label_of_success() -> None:
    async def fail(_arguments: TextArguments, _scene: Scene) -> Result:
        raise ValueError("the password is hunter2")

    probe = Probe(declared=Declared(result=CONFIDENTIAL), does=fail)
    keeper = gate([probe])
    asked = keeper.prepare(standing(), call("probe"))
    answer = await keeper.respond(standing(), asked, await keeper.run(standing(), asked))
    assert (answer.text, answer.label, answer.failed) == (FAILED, CONFIDENTIAL, True)


async def test_a_result_above_the_ceiling_is_refused_and_not_admitted() -> None:
    probe = Probe(result=Result("the plan", RESTRICTED))
    keeper = gate([probe])
    below = standing(ceiling=INTERNAL)
    asked = keeper.prepare(below, call("probe"))
    answer = await keeper.respond(below, asked, await keeper.run(below, asked))
    assert answer.hook is Hook.POST_TOOL_RESPONSE
    assert "the plan" not in answer.text
    assert (answer.label, answer.failed) == (PUBLIC, True)


async def test_a_result_refused_for_its_content_carries_the_label_of_success() -> None:
    policy = rule(hook="POST_TOOL_RESPONSE", pattern="payment-card", action="BLOCK", message="no cards")
    keeper = gate([Probe(result=Result(CARD, CONFIDENTIAL))], policy)
    asked = keeper.prepare(standing(), call("probe"))
    answer = await keeper.respond(standing(), asked, await keeper.run(standing(), asked))
    assert CARD not in answer.text
    assert "no cards" in answer.text
    assert answer.label == CONFIDENTIAL


async def test_the_configuration_raises_what_a_tool_declares() -> None:
    policy = document(tools={"current_time": {"result": "INTERNAL"}})
    keeper = gate([CurrentTime()], policy)
    asked = keeper.prepare(standing(), call("current_time"))
    assert asked.decision.label_after == INTERNAL
    answer = await keeper.respond(standing(), asked, await keeper.run(standing(), asked))
    assert answer.label == INTERNAL


async def test_unknown_is_worst_a_tool_without_a_label_is_not_offered_and_blocks() -> None:
    probe = Probe(label=None)
    keeper = gate([probe, CurrentTime()])
    assert [tool.name for tool in keeper.tools] == ["current_time"]
    assert blocked_by(keeper.prepare(standing(), call("probe")).decision) == {"unknown_is_worst"}


async def test_a_tool_without_a_label_may_be_given_one_by_the_operator() -> None:
    policy = load({"tools": {"probe": {"result": "INTERNAL"}}}, tools=("probe",))
    keeper = gate([Probe(label=None)], policy)
    assert [tool.name for tool in keeper.tools] == ["probe"]
    assert keeper.prepare(standing(), call("probe")).decision.label_after == INTERNAL


async def test_a_scene_tells_whether_a_label_may_enter() -> None:
    probe = Probe()
    keeper = gate([probe])
    below = standing(ceiling=INTERNAL)
    await keeper.run(below, keeper.prepare(below, call("probe")))
    (scene,) = probe.ran
    assert scene.permits(INTERNAL)
    assert not scene.permits(CONFIDENTIAL)
    assert scene.key == "s1/1/c1"


# --- approvals -------------------------------------------------------------------------------------


async def test_untrusted_cannot_command_without_an_approval_bound_to_exactly_this_call() -> None:
    keeper = gate([Message()])
    here, asked = standing(DIRTY), send("hi")
    assert keeper.prepare(here, asked).decision.verdict is Verdict.REQUIRE_APPROVAL
    lifted = keeper.prepare(here, asked, (approval(here, asked),))
    assert lifted.decision.verdict is Verdict.ALLOW
    assert (lifted.use, lifted.approved) == ("a1", True)


@pytest.mark.parametrize(
    ("where", "asked"),
    [
        pytest.param(standing(DIRTY), send("hi!"), id="another argument"),
        pytest.param(standing(parse("INTERNAL~")), send("hi"), id="another label"),
        pytest.param(standing(DIRTY, principal="boss"), send("hi"), id="another principal"),
        pytest.param(standing(DIRTY, generation=2), send("hi"), id="another generation"),
        pytest.param(standing(DIRTY, sid="s2"), send("hi"), id="another session"),
        pytest.param(standing(DIRTY), replace(send("hi"), id="c2"), id="another call"),
        pytest.param(standing(DIRTY, now=NOW + 1), send("hi"), id="expired"),
    ],
)
async def test_an_approval_for_something_else_lifts_nothing(where: Standing, asked: Call) -> None:
    policy = document(
        principals={
            name: {"role": "owner", "clearance": "top", "accounts": [f"console:{name}"]} for name in ("owner", "boss")
        },
        recipients={"guest": {"channel": "console", "chat": "guest", "clearance": "top"}},
    )
    known = approval(standing(DIRTY), send("hi"))
    assert gate([Message()], policy).prepare(where, asked, (known,)).decision.verdict is Verdict.REQUIRE_APPROVAL


@pytest.mark.parametrize("state", [ApprovalState.PENDING, ApprovalState.DENIED, ApprovalState.EXPIRED])
async def test_only_an_approved_approval_counts(state: ApprovalState) -> None:
    here, asked = standing(DIRTY), send("hi")
    known = approval(here, asked, state)
    assert gate([Message()]).prepare(here, asked, (known,)).decision.verdict is Verdict.REQUIRE_APPROVAL


async def test_a_spent_approval_counts_for_the_call_that_spent_it_and_is_not_spent_again() -> None:
    here, asked = standing(DIRTY), send("hi")
    again = gate([Message()]).prepare(here, asked, (approval(here, asked, ApprovalState.USED),))
    assert (again.decision.verdict, again.use, again.approved) == (Verdict.ALLOW, None, True)


async def test_an_approval_never_lifts_no_write_down() -> None:
    here, asked = standing(parse("INTERNAL~")), send("hi")
    refused = gate([Message()]).prepare(here, asked, (approval(here, asked),))
    assert blocked_by(refused.decision) == {"no_write_down"}


async def test_what_nobody_may_approve_is_blocked_without_offering_an_approver() -> None:
    policy = rule(hook="PRE_TOOL_CALL", tools=["current_time"], action="REQUIRE_APPROVAL")
    asked = gate([CurrentTime()], policy).prepare(standing(), call("current_time"))
    assert blocked_by(asked.decision) == {"fails_closed"}
    assert Remedy.APPROVER not in asked.decision.remedies
    assert "mine" in asked.decision.rules


async def test_a_word_to_oneself_at_a_cleared_address_is_not_consequential() -> None:
    keeper = gate([Message()])
    assert keeper.prepare(standing(TOP), send("hi", recipient="owner")).decision.verdict is Verdict.ALLOW


# --- redaction -------------------------------------------------------------------------------------


async def test_redact_on_what_enters_the_context() -> None:
    keeper = gate([], rule(hook="PRE_CONTEXT_INJECTION", pattern="payment-card", action="REDACT"))
    spoken = keeper.admit(standing(), PUBLIC, f"pay {CARD} now")
    assert spoken.decision.verdict is Verdict.REDACT
    assert spoken.text == "pay [redacted: payment-card] now"


async def test_redact_on_a_result() -> None:
    keeper = gate(
        [Probe(result=Result(f"pay {CARD}"))], rule(hook="POST_TOOL_RESPONSE", pattern="payment-card", action="REDACT")
    )
    asked = keeper.prepare(standing(), call("probe"))
    answer = await keeper.respond(standing(), asked, await keeper.run(standing(), asked))
    assert (answer.text, answer.failed) == ("pay [redacted: payment-card]", False)


async def test_redact_on_arguments_however_deep_names_too() -> None:
    probe = Probe()
    keeper = gate([probe], rule(hook="PRE_TOOL_CALL", pattern="payment-card", action="REDACT"))
    deep = {"text": CARD, "more": {"list": [{"a": f"x {CARD}"}, 7, None, True], CARD: "key"}}
    asked = keeper.prepare(standing(), call("probe", deep))
    assert asked.decision.verdict is Verdict.REDACT
    await keeper.run(standing(), asked)
    ((arguments,),) = (probe.said,)
    assert CARD not in arguments.model_dump_json()
    assert json.loads(arguments.model_dump_json())["more"]["list"][1:] == [7, None, True]


async def test_redact_on_the_text_of_a_message() -> None:
    keeper = gate([Message()], rule(hook="PRE_OUTPUT", pattern="payment-card", action="REDACT"))
    asked = keeper.prepare(standing(), send(f"pay {CARD}"))
    assert asked.decision.verdict is Verdict.REDACT
    answer = await keeper.respond(standing(), asked, await keeper.run(standing(), asked))
    assert [said.text for said in answer.deliver] == ["pay [redacted: payment-card]"]


async def test_arguments_that_no_longer_fit_once_redacted_are_refused(tmp_path: Path) -> None:
    policy = rule(hook="PRE_TOOL_CALL", pattern="payment-card", action="REDACT")
    keeper = gate([ReadFile(folder_of_files(tmp_path))], policy)
    path = f"public/{'x ' * 243}{CARD}"
    assert len(path) == 512
    asked = keeper.prepare(standing(), call("read_file", {"path": path}))
    assert blocked_by(asked.decision) == {"fails_closed"}


async def test_a_redaction_that_would_change_the_sink_is_refused(tmp_path: Path) -> None:
    policy = document(
        folders={
            "internal": {"floor": "PUBLIC", "clearance": "INTERNAL"},
            "[redacted: place]": {"floor": "PUBLIC", "clearance": "PUBLIC"},
        },
        patterns={"place": "internal"},
        rules=[{"id": "mine", "hook": "PRE_TOOL_CALL", "pattern": "place", "action": "REDACT"}],
    )
    keeper = gate([WriteFile(folder_of_files(tmp_path))], policy)
    asked = keeper.prepare(standing(INTERNAL), call("write_file", {"path": "internal/x", "text": "y"}))
    assert blocked_by(asked.decision) == {"fails_closed"}


async def test_redact_on_an_answer_lowers_no_label() -> None:
    keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action="REDACT"))
    there = await keeper.destination(GUEST)
    said = keeper.speak(standing(), there, CARD)
    assert (said.decision.verdict, said.text) == (Verdict.REDACT, "[redacted: payment-card]")
    assert blocked_by(keeper.speak(standing(INTERNAL), there, CARD).decision) == {"no_write_down"}


# --- speaking --------------------------------------------------------------------------------------


async def test_no_write_down_to_a_place_or_reader_that_is_not_cleared() -> None:
    keeper = gate([])
    assert blocked_by(keeper.speak(standing(INTERNAL), await keeper.destination(GUEST), "x").decision)
    assert keeper.speak(standing(TOP), await keeper.destination(HOME), "x").decision.verdict is Verdict.ALLOW


async def test_a_command_is_answered_by_what_it_tells_not_by_what_was_read() -> None:
    keeper = gate([])
    there = await keeper.destination(GUEST)
    assert keeper.reply(standing(RESTRICTED), there, "hi", PUBLIC).decision.verdict is Verdict.ALLOW
    assert blocked_by(keeper.reply(standing(), there, "hi", INTERNAL).decision) == {"no_write_down"}


async def test_a_delivery_is_decided_again_by_its_own_label() -> None:
    keeper = gate([])
    there = await keeper.destination(GUEST)
    assert keeper.recheck(delivery(), there).decision.verdict is Verdict.ALLOW
    assert blocked_by(keeper.recheck(delivery(label=INTERNAL), there).decision) == {"no_write_down"}
    nowhere = Destination("x", "console", None)
    assert keeper.recheck(delivery(), nowhere).decision.verdict is Verdict.ALLOW
    assert blocked_by(keeper.recheck(delivery(label=INTERNAL), nowhere).decision) == {"no_write_down"}


async def test_a_delivery_is_redacted_by_the_policy_in_force_when_it_leaves() -> None:
    keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action="REDACT"))
    assert keeper.recheck(delivery(CARD), await keeper.destination(GUEST)).text == "[redacted: payment-card]"


@pytest.mark.parametrize("error", [StoreGoneError("gone"), OSError("broken"), KeyError("no channel")])
async def test_unknown_is_worst_for_a_channel_that_cannot_tell_its_readers(error: Exception) -> None:
    async def cannot(address: Address) -> Audience:
        raise error

    assert (await gate([], audiences=cannot).destination(HOME)).clearance is None


async def test_a_message_is_refused_in_the_end_if_its_readers_changed_meanwhile() -> None:
    policy = document(recipients={"guest": {"channel": "console", "chat": "guest", "clearance": "top"}})
    keeper = gate([Message()], policy)
    asked = keeper.prepare(standing(INTERNAL), send("hi"))
    assert asked.decision.verdict is Verdict.ALLOW  # the place is cleared, but its reader is a stranger
    answer = await keeper.respond(standing(INTERNAL), asked, await keeper.run(standing(INTERNAL), asked))
    assert answer.hook is Hook.PRE_OUTPUT
    assert (answer.deliver, answer.failed) == ((), True)
    assert len(answer.audit) == 2


async def test_what_is_sent_bears_the_sessions_label_whatever_the_tool_says() -> None:
    said = NewDelivery("k", str(HOME), "x", PUBLIC)
    probe = Probe(effect=Effect.SEND, declared=Declared(clearance=TOP), result=Result("ok", deliver=(said,)))
    keeper = gate([probe])
    asked = keeper.prepare(standing(CONFIDENTIAL), call("probe"))
    answer = await keeper.respond(standing(CONFIDENTIAL), asked, await keeper.run(standing(CONFIDENTIAL), asked))
    assert [out.label for out in answer.deliver] == [CONFIDENTIAL]


# --- reset, simulate, audit ------------------------------------------------------------------------


async def test_a_reset_needs_confirmation() -> None:
    keeper = gate([])
    asked = keeper.reset(standing(TOP), confirmed=False)
    assert (asked.verdict, asked.remedies) == (Verdict.REQUIRE_APPROVAL, (Remedy.CONFIRM,))
    done = keeper.reset(standing(TOP), confirmed=True)
    assert (done.verdict, done.label_after) == (Verdict.ALLOW, PUBLIC)


def built_in(tmp_path: Path) -> tuple[Tool, ...]:
    files = folder_of_files(tmp_path)
    return (ReadFile(files), ListFiles(files), WriteFile(files), CurrentTime(), Message(), SimulateToolCall(often()))


CALLS = (
    call("read_file", {"path": "confidential/pipeline.md"}),
    call("read_file", {"path": "nowhere/x.md"}),
    call("read_file", {"path": "../x"}),
    call("read_file", {}),
    call("list_files", {"path": ""}),
    call("write_file", {"path": "public/x.md", "text": "y"}),
    call("write_file", {"path": "workspace/x.md", "text": CARD}),
    call("current_time"),
    send("hi"),
    send(CARD, recipient="owner"),
    send("hi", recipient="nobody"),
    call("format_disk", {"all": True}),
    call("simulate_tool_call", {"tool_name": "message", "args": {}}),
)


@pytest.mark.parametrize("asked", CALLS, ids=lambda asked: f"{asked.tool} {json.dumps(asked.arguments)}"[:60])
@pytest.mark.parametrize("taint", [PUBLIC, DIRTY, CONFIDENTIAL, TOP], ids=str)
async def test_simulate_equals_enforce(tmp_path: Path, taint: Label, asked: Call) -> None:
    policy = document(
        rules=[
            {"id": "no-cards", "hook": "PRE_TOOL_CALL", "pattern": "payment-card", "action": "REDACT"},
            {"id": "ask-lists", "hook": "PRE_TOOL_CALL", "tools": ["list_*"], "action": "REQUIRE_APPROVAL"},
        ]
    )
    keeper, here = gate(built_in(tmp_path), policy), standing(taint)
    real = keeper.prepare(here, asked).decision
    report = await keeper.simulate(here, asked.tool, asked.arguments or {}, taint)
    assert report["verdict"] == real.verdict.name
    assert report["rules"] == [
        {"id": rule.rule, "verdict": rule.verdict.name, "fixed": rule.fixed, "message": rule.message}
        for rule in real.outcomes
    ]
    assert report["taint_before"] == str(real.label_before)
    assert report["taint_after"] == shown(real.label_after, taint)
    assert report["remedies"] == [offered.value for offered in real.remedies]


async def test_a_simulation_says_what_it_depends_on(tmp_path: Path) -> None:
    keeper = gate(built_in(tmp_path))
    read = await keeper.simulate(standing(), "read_file", {"path": "public/x"}, TOP)
    assert read["depends"] == ["the label of what is read"]
    assert (await keeper.simulate(standing(), "current_time", {}, TOP))["depends"] == []
    assert "depends" not in await keeper.simulate(standing(TOP), "message", dict(send("x").arguments or {}), TOP)
    assert "depends" not in await keeper.simulate(standing(), "format_disk", {}, TOP)


async def test_a_tool_can_ask_what_the_gate_would_decide() -> None:
    keeper = gate([SimulateToolCall(often()), Message()])
    inner = {"tool_name": "message", "args": {"channel": "console", "recipient": "guest", "text": "x"}}
    asked = keeper.prepare(standing(INTERNAL), call("simulate_tool_call", inner))
    told = json.loads((await keeper.run(standing(INTERNAL), asked)).text)
    assert told["verdict"] == "BLOCK"
    assert "no_write_down" in [known["id"] for known in told["rules"]]


async def test_an_audit_row_names_rules_labels_and_policy_but_no_content() -> None:
    keeper = gate([Message()])
    asked = keeper.prepare(standing(INTERNAL), send("hunter2"))
    row = keeper.row(standing(INTERNAL), Hook.PRE_TOOL_CALL, asked.decision, tool="message")
    assert (row.kind, row.actor) == ("decision", "owner")
    assert row.body["policy"] == document().digest
    assert (row.body["before"], row.body["after"], row.body["tool"]) == ("INTERNAL", "INTERNAL", "message")
    assert "hunter2" not in json.dumps(dict(row.body))


async def test_an_explanation_shows_labels_only_to_a_reader_cleared_for_them() -> None:
    decision = gate([Message()]).prepare(standing(RESTRICTED), send("x")).decision
    assert "RESTRICTED" in Gate.explained(decision, RESTRICTED, "message")
    assert "RESTRICTED" not in Gate.explained(decision, INTERNAL, "message")


@pytest.mark.parametrize("effect", list(Effect))
async def test_whatever_reaches_others_is_a_barrier(effect: Effect) -> None:
    probe = Probe(effect=effect, declared=Declared(clearance=TOP), repeatable=effect is Effect.NONE)
    asked = gate([probe]).prepare(standing(), call("probe"))
    assert asked.barrier is (effect in {Effect.SEND, Effect.WRITE})
    assert asked.repeatable is probe.repeatable


async def test_the_gate_tells_its_tools_and_document() -> None:
    keeper = gate([CurrentTime()])
    assert [tool.name for tool in keeper.tools] == ["current_time"]
    assert keeper.document.digest == document().digest


def test_no_built_in_argument_has_a_name_for_session_principal_or_label(tmp_path: Path) -> None:
    for tool in built_in(tmp_path):
        assert issubclass(tool.arguments, Arguments)
        assert not {"sid", "principal", "label", "taint", "ceiling", "role"} & set(tool.arguments.model_fields)


def test_the_verdict_of_a_prepared_call_is_frozen() -> None:
    asked = gate([CurrentTime()]).prepare(standing(), call("current_time"))
    with pytest.raises(AttributeError):
        asked.decision = asked.decision  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(asked, Prepared)
    assert get_args(Prepared) == ()
