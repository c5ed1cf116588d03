"""What the gate lets be read and said: redaction, speaking, resets, simulations, audit rows."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from bot.access.decision_context import Call
from bot.core.errors import StoreGoneError
from bot.gate.judge import ReadyPolicy
from bot.gate.results import CallDecision, decision_row, explained
from bot.sessions.deliveries import OURS, Delivery, DeliveryState, NewDelivery
from bot.tools.base import Arguments, CallFacts, Result, Tool
from bot.tools.clock import CurrentTime
from bot.tools.files import ListFiles, ReadFile, WriteFile
from bot.tools.introspection import SimulateToolCall
from bot.tools.message import Message
from channels.messages import Address, Button
from channels.port import Audience
from channels.rich_text import parsed
from policy.decision import Remedy, Verdict
from policy.explain import shown
from policy.labels import PUBLIC, Label
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
    blocked_by,
    call,
    document,
    folder_of_files,
    gate,
    often,
    rule,
    send,
    standing,
    unrecorded,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = pytest.mark.anyio

CARD = "4111 1111 1111 1111"


def delivery(text: str = "hello", label: Label = PUBLIC) -> Delivery:
    return Delivery("s1", "k", str(GUEST), text, label, "message", "t1", DeliveryState.SENDING, NOW, 1, 1, approved=())


# --- redaction -------------------------------------------------------------------------------------


async def test_redact_on_what_enters_the_context() -> None:
    keeper = gate([], rule(hook="PRE_CONTEXT_INJECTION", pattern="payment-card", action="REDACT"))
    spoken = keeper.requests.admit(standing(), PUBLIC, f"pay {CARD} now")
    assert spoken.decision.verdict is Verdict.REDACT
    assert spoken.text == "pay [redacted: payment-card] now"


async def test_redact_on_a_result() -> None:
    keeper = gate(
        [Probe(result=Result(f"pay {CARD}"))], rule(hook="POST_TOOL_RESPONSE", pattern="payment-card", action="REDACT")
    )
    asked = keeper.calls.prepare(standing(), call("probe"))
    answer = await keeper.results.respond(standing(), asked, await keeper.run(standing(), asked, unrecorded))
    assert (answer.text, answer.failed) == ("pay [redacted: payment-card]", False)


HIDDEN = [
    "4111**1111**1111**1111**",
    "4111&#49;11111111111",
    "4111*<i>1111</i>*<!-- x -->11111111",
    "[4111](http://a.b/c)1111[11111111](http://d.e)",
    "4111\\-1111\\-1111\\-1111",
    "| 4111 | 1111 | 1111 | 1111 |\n|-|-|-|-|\n| a | b | c | d |",
    "[a](http://b.c/%34111111111111111)",
    "~~4111~~`1111`_1111_ 1111",
    "4111&ZeroWidthSpace;1111&shy;11111111",
    "> 4111\n\n    1111\n\n- 1111\n\n# 1111",
    "![4111](http://a.b) 1111&nbsp;&nbsp;11111111",
]
"""A card in what people see."""


@pytest.mark.parametrize("text", HIDDEN)
@pytest.mark.parametrize("action", ["BLOCK", "REDACT"])
async def test_what_people_see_is_decided_on_whenever_it_is_said(action: str, text: str) -> None:
    keeper = gate([Message()], rule(hook="PRE_OUTPUT", pattern="payment-card", action=action))
    there, verdict = await keeper.readers.destination(GUEST), Verdict[action]
    asked = keeper.calls.prepare(standing(), send(f"pay {text} now"))
    assert asked.decision.verdict is verdict
    said = [keeper.output.speak(standing(), there, text), keeper.output.recheck(delivery(text), there, NOW)]
    for spoken in said:
        assert spoken.decision.verdict is verdict
        if action == "REDACT":
            again = keeper.output.speak(standing(), there, spoken.text)
            assert (again.decision.verdict, again.text) == (Verdict.ALLOW, spoken.text)
            assert "[redacted: payment-card]" in spoken.text


async def test_what_is_hidden_deeper_than_anybody_writes_goes_on_as_nothing() -> None:
    keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action="REDACT"))
    there = await keeper.readers.destination(GUEST)
    # Each reading makes a card of the next.
    cards = [f"4111&{'amp;' * level}#49;11111111111" for level in range(6)]
    spoken = keeper.output.speak(standing(), there, "\n\n".join(cards))
    assert spoken.text == "[redacted: payment-card]"


async def test_a_rule_that_looks_for_nothing_reads_nothing() -> None:
    keeper = gate([], rule(hook="PRE_OUTPUT", pattern="email", action="BLOCK", taint=">= CONFIDENTIAL"))
    there = await keeper.readers.destination(GUEST)
    assert keeper.output.speak(standing(), there, HIDDEN[0]).decision.verdict is Verdict.ALLOW


@pytest.mark.parametrize("text", HIDDEN)
async def test_arguments_are_decided_on_as_people_would_see_them(text: str) -> None:
    for action, verdict in (("BLOCK", Verdict.BLOCK), ("REDACT", Verdict.REDACT)):
        probe = Probe()
        keeper = gate([probe], rule(hook="PRE_TOOL_CALL", pattern="payment-card", action=action))
        asked = keeper.calls.prepare(standing(), call("probe", {"text": text, "more": {"a": "x"}}))
        assert asked.decision.verdict is verdict
        if verdict is Verdict.REDACT:
            await keeper.run(standing(), asked, unrecorded)
            assert "[redacted: payment-card]" in probe.said[0].model_dump_json()


async def test_what_only_two_arguments_hold_together_is_refused() -> None:
    keeper = gate([Probe()], rule(hook="PRE_TOOL_CALL", pattern="payment-card", action="REDACT"))
    asked = keeper.calls.prepare(standing(), call("probe", {"more": {"a": ["4111&#49;111", "1111&#49;111"]}}))
    assert blocked_by(asked.decision) == {"fails_closed"}


async def test_buttons_are_decided_on_with_their_text() -> None:
    there = await gate([]).readers.destination(GUEST)
    pressed = (Button("4111 1111", "/pay 1111 1111"), Button("No", "/no"))
    for action, text in (("BLOCK", "pay?"), ("REDACT", "pay?"), ("REDACT", f"pay {CARD}?"), ("REDACT", "4111 1111")):
        keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action=action))
        whole = (Button(CARD, "/pay"),) if text != "4111 1111" else (Button("1111 1111", "/pay"),)
        assert keeper.output.reply(standing(), there, text, PUBLIC, buttons=whole).decision.verdict is Verdict.BLOCK
        assert keeper.output.recheck(delivery(text), there, NOW, buttons=whole).decision.verdict is Verdict.BLOCK
        assert (
            keeper.output.reply(standing(), there, "no?", PUBLIC, buttons=pressed[1:]).decision.verdict is Verdict.ALLOW
        )
    keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action="REDACT"))
    spoken = keeper.output.reply(standing(), there, f"pay {CARD}?", PUBLIC, buttons=pressed[1:])
    assert (spoken.decision.verdict, spoken.text) == (Verdict.REDACT, "pay [redacted: payment-card]?")


async def test_what_a_turn_said_before_counts_with_what_it_says_next() -> None:
    for action, verdict in (("BLOCK", Verdict.BLOCK), ("REDACT", Verdict.REDACT)):
        keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action=action))
        there = await keeper.readers.destination(GUEST)
        assert keeper.output.looks_across(delivery())
        for before, text in (("4111 **1111**", "1111 1111"), ("it is 4111&#49;111", "**1111** 1111, thanks")):
            spoken = keeper.output.recheck(delivery(text), there, NOW, before=(before,))
            assert spoken.decision.verdict is verdict
            assert action == "BLOCK" or spoken.text == "[redacted: payment-card]"
        assert (
            keeper.output.recheck(delivery("and so on"), there, NOW, before=(CARD, "x")).decision.verdict
            is Verdict.ALLOW
        )
        both = keeper.output.recheck(delivery(f"{CARD} as well"), there, NOW, before=("hello",))
        assert action == "BLOCK" or both.text == "[redacted: payment-card] as well"
    keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action="BLOCK", taint=">= CONFIDENTIAL"))
    spoken = keeper.output.recheck(delivery("1111 1111"), there, NOW, before=("4111 1111",))
    assert spoken.decision.verdict is Verdict.ALLOW
    assert not gate([]).output.looks_across(delivery())
    assert not keeper.output.looks_across(replace(delivery(), approved=OURS))


async def test_long_texts_are_read_in_a_thread_where_a_rule_looks_for_something() -> None:
    looking = gate([Probe()], rule(hook="PRE_OUTPUT", pattern="email", action="BLOCK"))
    for keeper, text, read in ((gate([]), "a *b* ", 0), (looking, "c *d* ", 1), (looking, "e *f*", 0)):
        before = parsed.cache_info().currsize + parsed.cache_info().misses
        await keeper.output.read_ahead((text * (1 if not read and keeper is looking else 1000),))
        assert parsed.cache_info().currsize + parsed.cache_info().misses - before >= read
    await gate([Probe()], rule(hook="PRE_TOOL_CALL", pattern="email", action="BLOCK")).calls.read_call(
        call("probe", {"a": "b"})
    )
    await gate([Probe()]).calls.read_call(Call("c", "probe", None))
    await gate([Probe()]).calls.read_call(Call("c", "probe", {"n": 10**5000}))


async def test_redact_on_arguments_however_deep_names_too() -> None:
    probe = Probe()
    keeper = gate([probe], rule(hook="PRE_TOOL_CALL", pattern="payment-card", action="REDACT"))
    deep: dict[str, JsonValue] = {"text": CARD, "more": {"list": [{"a": f"x {CARD}"}, 7, None, True], CARD: "key"}}
    asked = keeper.calls.prepare(standing(), call("probe", deep))
    assert asked.decision.verdict is Verdict.REDACT
    await keeper.run(standing(), asked, unrecorded)
    ((arguments,),) = (probe.said,)
    assert CARD not in arguments.model_dump_json()
    assert json.loads(arguments.model_dump_json())["more"]["list"][1:] == [7, None, True]


async def test_redact_on_the_text_of_a_message() -> None:
    keeper = gate([Message()], rule(hook="PRE_OUTPUT", pattern="payment-card", action="REDACT"))
    asked = keeper.calls.prepare(standing(), send(f"pay {CARD}"))
    assert asked.decision.verdict is Verdict.REDACT
    answer = await keeper.results.respond(standing(), asked, await keeper.run(standing(), asked, unrecorded))
    assert [said.text for said in answer.deliver] == ["pay [redacted: payment-card]"]


async def test_arguments_that_no_longer_fit_once_redacted_are_refused(tmp_path: Path) -> None:
    policy = rule(hook="PRE_TOOL_CALL", pattern="payment-card", action="REDACT")
    keeper = gate([ReadFile(folder_of_files(tmp_path))], policy)
    path = f"public/{'x ' * 243}{CARD}"
    assert len(path) == 512
    asked = keeper.calls.prepare(standing(), call("read_file", {"path": path}))
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
    asked = keeper.calls.prepare(standing(INTERNAL), call("write_file", {"path": "internal/x", "text": "y"}))
    assert blocked_by(asked.decision) == {"fails_closed"}


async def test_redact_on_an_answer_lowers_no_label() -> None:
    keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action="REDACT"))
    there = await keeper.readers.destination(GUEST)
    said = keeper.output.speak(standing(), there, CARD)
    assert (said.decision.verdict, said.text) == (Verdict.REDACT, "[redacted: payment-card]")
    assert blocked_by(keeper.output.speak(standing(INTERNAL), there, CARD).decision) == {"no_write_down"}


# --- speaking --------------------------------------------------------------------------------------


async def test_no_write_down_to_a_place_or_reader_that_is_not_cleared() -> None:
    keeper = gate([])
    assert blocked_by(keeper.output.speak(standing(INTERNAL), await keeper.readers.destination(GUEST), "x").decision)
    assert (
        keeper.output.speak(standing(TOP), await keeper.readers.destination(HOME), "x").decision.verdict
        is Verdict.ALLOW
    )


async def test_a_command_is_answered_by_what_it_tells_not_by_what_was_read() -> None:
    keeper = gate([])
    there = await keeper.readers.destination(GUEST)
    assert keeper.output.reply(standing(RESTRICTED), there, "hi", PUBLIC).decision.verdict is Verdict.ALLOW
    assert blocked_by(keeper.output.reply(standing(), there, "hi", INTERNAL).decision) == {"no_write_down"}


async def test_a_delivery_is_decided_again_by_its_own_label() -> None:
    keeper = gate([])
    there = await keeper.readers.destination(GUEST)
    assert keeper.output.recheck(delivery(), there, NOW).decision.verdict is Verdict.ALLOW
    assert blocked_by(keeper.output.recheck(delivery(label=INTERNAL), there, NOW).decision) == {"no_write_down"}
    nowhere = Destination("x", "console", None)
    assert keeper.output.recheck(delivery(), nowhere, NOW).decision.verdict is Verdict.ALLOW
    assert blocked_by(keeper.output.recheck(delivery(label=INTERNAL), nowhere, NOW).decision) == {"no_write_down"}


async def test_a_delivery_is_redacted_by_the_policy_in_force_when_it_leaves() -> None:
    keeper = gate([], rule(hook="PRE_OUTPUT", pattern="payment-card", action="REDACT"))
    assert (
        keeper.output.recheck(delivery(CARD), await keeper.readers.destination(GUEST), NOW).text
        == "[redacted: payment-card]"
    )


async def test_a_delivery_is_judged_by_the_hour_at_which_it_leaves() -> None:
    schedule = {"days": ["mon"], "zone": "UTC"}
    # Zones are read from files, so not on the loop.
    keeper = await asyncio.to_thread(lambda: gate([], rule(hook="PRE_OUTPUT", action="BLOCK", schedule=schedule)))
    there, day = await keeper.readers.destination(GUEST), 24 * 60 * 60 * 1000
    verdicts = [keeper.output.recheck(delivery(), there, NOW + n * day).decision.verdict for n in range(7)]
    assert sorted(verdicts) == [*[Verdict.ALLOW] * 6, Verdict.BLOCK]


@pytest.mark.parametrize("error", [StoreGoneError("gone"), OSError("broken"), KeyError("no channel")])
async def test_unknown_is_worst_for_a_channel_that_cannot_tell_its_readers(error: Exception) -> None:
    async def cannot(_address: Address) -> Audience:
        raise error

    assert (await gate([], audiences=cannot).readers.destination(HOME)).clearance is None


async def test_a_message_is_refused_in_the_end_if_its_readers_changed_meanwhile() -> None:
    policy = document(recipients={"guest": {"channel": "console", "chat": "guest", "clearance": "top"}})
    keeper = gate([Message()], policy)
    asked = keeper.calls.prepare(standing(INTERNAL), send("hi"))
    assert asked.decision.verdict is Verdict.ALLOW  # the place is cleared, but its reader is a stranger
    answer = await keeper.results.respond(
        standing(INTERNAL), asked, await keeper.run(standing(INTERNAL), asked, unrecorded)
    )
    assert answer.hook is Hook.PRE_OUTPUT
    assert (answer.deliver, answer.failed) == ((), True)
    assert len(answer.audit) == 2


async def test_what_is_sent_bears_the_sessions_label_whatever_the_tool_says() -> None:
    said = NewDelivery("k", str(HOME), "x", PUBLIC)
    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP), result=Result("ok", deliver=(said,)))
    keeper = gate([probe])
    asked = keeper.calls.prepare(standing(CONFIDENTIAL), call("probe"))
    answer = await keeper.results.respond(
        standing(CONFIDENTIAL), asked, await keeper.run(standing(CONFIDENTIAL), asked, unrecorded)
    )
    assert [out.label for out in answer.deliver] == [CONFIDENTIAL]


# --- reset, simulate, audit ------------------------------------------------------------------------


async def test_a_reset_needs_confirmation() -> None:
    keeper = gate([])
    asked = keeper.requests.reset(standing(TOP), confirmed=False)
    assert (asked.verdict, asked.remedies) == (Verdict.REQUIRE_APPROVAL, (Remedy.CONFIRM,))
    done = keeper.requests.reset(standing(TOP), confirmed=True)
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
    real = (await keeper.calls.foresee(here, keeper.calls.prepare(here, asked))).decision
    report = await keeper.calls.simulate(here, asked.tool, asked.arguments or {}, taint)
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
    read = await keeper.calls.simulate(standing(), "read_file", {"path": "public/x"}, TOP)
    assert read["depends"] == ["the label of the data that are read"]
    assert (await keeper.calls.simulate(standing(), "current_time", {}, TOP))["depends"] == []
    assert "depends" not in await keeper.calls.simulate(standing(TOP), "message", dict(send("x").arguments or {}), TOP)
    assert "depends" not in await keeper.calls.simulate(standing(), "format_disk", {}, TOP)


async def test_a_tool_can_ask_what_the_gate_would_decide() -> None:
    keeper = gate([SimulateToolCall(often()), Message()])
    inner: dict[str, JsonValue] = {
        "tool_name": "message",
        "args": {"channel": "console", "recipient": "guest", "text": "x"},
    }
    asked = keeper.calls.prepare(standing(INTERNAL), call("simulate_tool_call", inner))
    told = json.loads((await keeper.run(standing(INTERNAL), asked, unrecorded)).text)
    assert told["verdict"] == "BLOCK"
    assert "no_write_down" in [known["id"] for known in told["rules"]]


async def test_an_audit_row_names_rules_labels_and_policy_but_no_content() -> None:
    keeper = gate([Message()])
    asked = keeper.calls.prepare(standing(INTERNAL), send("hunter2"))
    row = decision_row(standing(INTERNAL), Hook.PRE_TOOL_CALL, asked.decision, tool="message")
    assert (row.kind, row.actor) == ("decision", "owner")
    assert row.body["policy"] == document().digest
    assert (row.body["before"], row.body["after"], row.body["tool"]) == ("INTERNAL", "INTERNAL", "message")
    assert "hunter2" not in json.dumps(dict(row.body))


async def test_an_explanation_shows_labels_only_to_a_reader_cleared_for_them() -> None:
    decision = gate([Message()]).calls.prepare(standing(RESTRICTED), send("x")).decision
    assert "RESTRICTED" in explained(decision, RESTRICTED, "message")
    assert "RESTRICTED" not in explained(decision, INTERNAL, "message")


@pytest.mark.parametrize("effect", list(Effect))
async def test_whatever_reaches_others_is_a_barrier(effect: Effect) -> None:
    probe = Probe(effect=effect, declared=CallFacts(clearance=TOP), repeatable=effect is Effect.NONE)
    there = gate([probe])
    assert there.calls.reaches_others(call("probe")) is (effect in {Effect.SEND, Effect.WRITE})
    assert there.calls.prepare(standing(), call("probe")).repeatable is probe.repeatable


async def test_the_gate_tells_its_tools_and_document() -> None:
    keeper = gate([CurrentTime()])
    assert [tool.name for tool in keeper.tools] == ["current_time"]
    assert keeper.document.digest == document().digest


def test_no_built_in_argument_has_a_name_for_session_principal_or_label(tmp_path: Path) -> None:
    for tool in built_in(tmp_path):
        assert issubclass(tool.arguments, Arguments)
        assert not {"sid", "principal", "label", "taint", "ceiling", "role"} & set(tool.arguments.model_fields)


def test_the_verdict_of_a_prepared_call_is_frozen() -> None:
    asked = gate([CurrentTime()]).calls.prepare(standing(), call("current_time"))
    with pytest.raises(AttributeError):
        asked.decision = asked.decision  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(asked, CallDecision)
    assert get_args(CallDecision) == ()


class Paying(Arguments):
    card: int


def test_a_number_that_cannot_be_replaced_is_refused() -> None:
    rule = {"id": "no-cards", "hook": "PRE_TOOL_CALL", "pattern": "payment-card", "action": "REDACT"}
    probe = Probe(effect=Effect.SEND, declared=CallFacts(clearance=TOP), arguments=Paying)
    asked = call("probe", {"card": 4111111111111111})
    decision = gate([probe], document(rules=[rule])).calls.prepare(standing(), asked).decision
    assert decision.verdict is Verdict.BLOCK
    assert "cannot be replaced" in decision.outcomes[-1].message


async def test_what_content_rules_need_is_loaded_once_they_are_in_force() -> None:
    for keeper in (gate([]), gate([], rule(hook="PRE_OUTPUT", pattern="iban", action="BLOCK"))):
        await asyncio.to_thread(keeper.policy.load)
        assert (await asyncio.to_thread(ReadyPolicy.of(keeper.document).loaded)).document is keeper.document
