"""Of a spared result the level enters; what is shown of it depends on its call and on bits that are counted."""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.config.mcp import McpServerSettings
from bot.gate.gate import Gate
from bot.gate.results import CallDecision, ResultDecision
from bot.history.event_log import held_in, item_held
from bot.mcp.tool import Ask, McpTool
from bot.secrets import Keyring
from bot.sessions.log.events import DeferredResult
from bot.tools.base import Result, Tool
from bot.tools.held.skeletons import NOT_THERE
from bot.tools.references import ADMIT, HOLD, NO_HANDLE, Admit
from policy.decision import Verdict
from policy.document.model import Document, load
from policy.labels import PUBLIC, parse
from tests.bot.kit import Childless, Probe, Runless, everybody, standing, unrecorded
from tests.bot.mailbox import LABELLED, Mailbox, mail

pytestmark = pytest.mark.anyio

INTERNAL, SPARED = parse("INTERNAL"), parse("INTERNAL~")
FIND, READ, DELETE = Call("c1", "mail__find", {}), "mail__read", "mail__delete"
RULED = {"id": "no-cards", "hook": "POST_TOOL_RESPONSE", "pattern": "payment-card"}
CARD = "4111 1111 1111 1111"


@dataclass
class Charging(Childless):
    """Charges what there is room for."""

    room: int = 40_000
    charged: dict[str, int] = field(default_factory=dict[str, int])

    async def charge(self, standing: DecisionContext, run: str, millibits: int) -> bool:
        if sum(self.charged.values()) + millibits > self.room:
            return False
        self.charged[run] = millibits
        return True


def document(**sections: object) -> Document:
    names = ["mail__find", READ, DELETE, "mail__purge", "bin__delete", "probe", ADMIT]
    return load({"mcp_servers": LABELLED, **sections}, tools=names, servers=["mail", "bin"])


def keeper(box: Mailbox, *others: Tool, charging: Charging | None = None, **sections: object) -> Gate:
    return Gate(
        document(**sections),
        (*box.tools, *others),
        ("offline",),
        everybody,
        keyring=Keyring(),
        spawner=charging or Charging(),
        runs=Runless(),
    )


async def responded(gate: Gate, call: Call, where: DecisionContext) -> tuple[CallDecision, ResultDecision]:
    prepared = gate.calls.prepare(where, call)
    assert prepared.decision.verdict is Verdict.ALLOW
    return prepared, await gate.results.respond(where, prepared, await gate.run(where, prepared, unrecorded))


def skeleton(response: ResultDecision) -> Any:  # noqa: ANN401 - JSON
    return json.loads(response.text.splitlines()[-1])


def after(where: DecisionContext, *responses: ResultDecision) -> DecisionContext:
    """Return where the session stands once these results are in its log."""
    items = [item_held(where, one.held) for one in responses if one.held is not None]
    return replace(where, taint=INTERNAL, held=(*where.held, *held_in(items)))


async def test_the_level_enters_and_the_text_does_not() -> None:
    gate = keeper(Mailbox(mail("a", "eve says", 20)))
    prepared, response = await responded(gate, FIND, standing())
    assert (prepared.spared, prepared.hold, prepared.decision.label_after) == (True, False, INTERNAL)
    assert (prepared.label, response.label) == (SPARED, INTERNAL)
    assert response.held is not None
    assert (response.held.label, response.held.server) == (SPARED, "mail")
    assert "eve" not in response.text
    one = skeleton(response)["mails"][0]
    assert one == {"id": one["id"], "subject": {"$ref": f"{response.held.ref}.2"}, "size": 20}
    assert re.fullmatch("mail-1-[a-z2-7]{4}", one["id"])
    (endorsed,) = response.endorsed
    assert (endorsed.session, endorsed.millibits) == ("s1", 7295)
    assert endorsed.text.startswith('mail__find: {"status": "ok"')
    assert re.fullmatch("[0-9a-f]{16}", endorsed.run)


@pytest.mark.parametrize(
    "where,hold", [(standing(parse("PUBLIC~")), None), (standing(), True)], ids=["untrusted already", "held"]
)
async def test_nothing_is_spared_that_enters_or_is_held_anyway(where: DecisionContext, hold: JsonValue) -> None:
    arguments = {} if hold is None else {HOLD: hold}
    prepared, response = await responded(keeper(Mailbox(mail("a"))), Call("c1", "mail__find", arguments), where)
    assert not prepared.spared
    assert response.endorsed == ()
    assert response.label == (where.taint.join(SPARED) if hold is None else PUBLIC)


async def test_a_trusted_result_enters_and_a_tool_without_a_label_has_none() -> None:
    probe = Probe(result=Result("words", SPARED))
    prepared, response = await responded(
        keeper(Mailbox(), probe, hold="untrusted"), Call("c1", "probe", {}), standing()
    )
    assert (prepared.spared, response.text, response.label) == (False, "words", SPARED)
    unlabelled = keeper(Mailbox(), Probe(label=None), hold="untrusted").calls.prepare(
        standing(), Call("c1", "probe", {})
    )
    assert not unlabelled.spared


@pytest.mark.parametrize("room,shown", [(7_295, 20), (7_294, "held"), (2_322, "held"), (2_321, None)])
async def test_what_cannot_be_charged_is_not_shown(room: int, shown: JsonValue) -> None:
    charging = Charging(room)
    _, response = await responded(keeper(Mailbox(mail("a", size=20)), charging=charging), FIND, standing())
    if shown is None:
        assert charging.charged == {}
        assert (response.endorsed, len(response.text.splitlines())) == ((), 1)
    else:
        size = skeleton(response)["mails"][0]["size"]
        assert size == 20 if shown == 20 else size["$ref"].startswith(f"{shown}-")


@pytest.mark.parametrize(
    "box,sections",
    [
        (Mailbox(), {}),
        (Mailbox(*[mail("a")] * 4), {}),
        (Mailbox(mail("a", CARD)), {"rules": [{**RULED, "action": "REDACT"}]}),
        (Mailbox(mail("a", CARD)), {"rules": [{**RULED, "action": "BLOCK"}]}),
    ],
    ids=["failed", "too many", "redacted", "refused"],
)
async def test_all_that_shows_nothing_looks_alike_and_costs_the_same(box: Mailbox, sections: dict[str, object]) -> None:
    charging = Charging()
    prepared, response = await responded(keeper(box, charging=charging, **sections), FIND, standing())
    assert list(charging.charged.values()) == [7295]
    assert response.held is not None
    assert response.held.parts == ()
    # That nothing is shown is heard like a skeleton.
    assert [(one.text, one.millibits) for one in response.endorsed] == [("mail__find: no part of it was shown", 7295)]
    assert response.label == INTERNAL
    _, other = await responded(keeper(Mailbox(mail("a")), charging=Charging(0)), FIND, standing())
    assert response.text == other.text
    assert prepared.keeps


async def test_a_result_that_proves_higher_looks_like_one_that_does_not_fit() -> None:
    probe = Probe(label=SPARED, result=Result("words", parse("CONFIDENTIAL~")))
    low = Probe(label=SPARED, result=Result("others"))
    told = list[ResultDecision]()
    for one in (probe, low):
        told.append((await responded(keeper(Mailbox(), one, hold="untrusted"), Call("c1", "probe", {}), standing()))[1])
    assert told[0].text == told[1].text
    assert told[0].label == told[1].label == INTERNAL
    assert [one.held.label for one in told if one.held] == [parse("CONFIDENTIAL~"), SPARED]


async def test_a_description_without_choices_shows_the_same_for_every_result() -> None:
    charging, box = Charging(0), Mailbox(mail("a", "hello", body="words"))
    gate = keeper(box, charging=charging)
    _, listed = await responded(keeper(box), FIND, standing())
    where = after(standing(), listed)
    handle = skeleton(listed)["mails"][0]["id"]
    prepared, found = await responded(gate, Call("c2", READ, {"id": handle}), where)
    _, failed = await responded(gate, Call("c2", READ, {"id": "gone"}), where)
    assert (prepared.by_handle, prepared.spared) == (True, True)
    assert found.text == failed.text
    assert found.held is not None
    assert failed.held is not None
    assert [part.text for part in found.held.parts] == ["hello", "words"]
    assert [part.text for part in failed.held.parts] == [NOT_THERE, NOT_THERE]
    assert charging.charged == {}


async def test_the_gate_puts_the_identifier_in_place_of_its_handle() -> None:
    box = Mailbox(mail("a"), mail("a"))
    gate = keeper(box)
    _, listed = await responded(gate, FIND, standing())
    one, other = (entry["id"] for entry in skeleton(listed)["mails"])
    where = after(standing(), listed)
    assert one != other
    await responded(gate, Call("c2", DELETE, {"id": other}), where)
    assert box.asked[-1] == ("delete", {"id": "a"})
    _, again = await responded(gate, replace(FIND, id="c3"), where)
    assert [entry["id"][:7] for entry in skeleton(again)["mails"]] == ["mail-3-", "mail-4-"]


async def test_a_handle_of_elsewhere_names_nothing() -> None:
    box, bin_ = Mailbox(mail("a")), Mailbox(server="bin")
    probe = Probe()
    labelled = {**LABELLED, "bin": LABELLED["mail"]}
    gate = keeper(box, *bin_.tools, probe, _tool(box, {"word": {"type": "string"}}), mcp_servers=labelled)
    _, listed = await responded(gate, FIND, standing())
    handle = skeleton(listed)["mails"][0]["id"]
    where = after(standing(), listed)
    calls = [
        (replace(where, held=()), Call("c2", DELETE, {"id": handle})),
        (where, Call("c2", "bin__delete", {"id": handle})),
        (where, Call("c2", DELETE, {"id": handle.replace("mail-1", "mail-2")})),
        (where, Call("c2", "mail__purge", {"word": handle})),
    ]
    for at, made in calls:
        decision = gate.calls.prepare(at, made).decision
        assert (decision.verdict, decision.outcomes[-1].message) == (Verdict.BLOCK, NO_HANDLE)
    said = gate.calls.prepare(where, Call("c2", "probe", {"text": f"about {handle}"}))
    assert said.decision.verdict is Verdict.ALLOW
    admitted = keeper(box, Admit()).calls.prepare(where, Call("c2", ADMIT, {"ref": handle}))
    assert (admitted.decision.verdict, admitted.label) == (Verdict.ALLOW, SPARED)


async def test_a_held_text_is_admitted_where_every_tool_is_spared() -> None:
    box = Mailbox(mail("a", "eve says"))
    gate = keeper(box, Admit(), hold="untrusted")
    _, listed = await responded(gate, FIND, standing())
    assert listed.held is not None
    prepared, response = await responded(gate, Call("c2", ADMIT, {"ref": listed.held.ref}), after(standing(), listed))
    assert (prepared.spared, response.held, response.label) == (False, None, SPARED)
    assert "eve says" in response.text


async def test_a_call_by_handle_of_a_tool_that_is_not_spared_is_held() -> None:
    box = Mailbox(mail("a"))
    _, listed = await responded(keeper(box), FIND, standing())
    handle, where = skeleton(listed)["mails"][0]["id"], after(standing(), listed)
    plain = keeper(box, mcp_servers={"mail": {"floor": "INTERNAL", "integrity": "TRUSTED", "clearance": "INTERNAL"}})
    prepared, response = await responded(plain, Call("c2", READ, {"id": handle}), where)
    assert (prepared.hold, prepared.spared, prepared.label) == (True, False, SPARED)
    assert response.label == INTERNAL
    dirty = replace(where, taint=SPARED)
    assert not plain.calls.prepare(dirty, Call("c2", READ, {"id": handle})).keeps


async def test_what_a_rule_finds_in_an_identifier_has_its_label() -> None:
    """The rule sees the identifier; its refusal is as UNTRUSTED, and simulating tells nothing of it."""
    rule = {"id": "not-a", "hook": "PRE_TOOL_CALL", "tools": [DELETE], "action": "BLOCK", "pattern": "payment-card"}
    box = Mailbox(mail(CARD))
    gate = keeper(box, rules=[rule])
    _, listed = await responded(gate, FIND, standing())
    handle, where = skeleton(listed)["mails"][0]["id"], after(standing(), listed)
    prepared = gate.calls.prepare(where, Call("c2", DELETE, {"id": handle}))
    assert (prepared.decision.rules, prepared.told.verdict) == (("not-a",), Verdict.ALLOW)
    assert (prepared.concealed, prepared.beside) == (True, SPARED)
    simulated = await gate.calls.simulate(where, DELETE, {"id": handle}, where.taint)
    assert simulated["verdict"] == "ALLOW"


async def test_a_long_skeleton_is_cut_in_questions() -> None:
    status = "s" * 400

    class Long(Mailbox):
        def found(self, ask: Ask) -> dict[str, JsonValue] | None:
            return {"status": status, "mails": []}

    _, response = await responded(keeper(Long()), FIND, standing())
    assert skeleton(response)["status"] == status
    assert len(response.endorsed[0].text) == len("mail__find: ") + 301


async def test_a_list_of_identifiers_and_numbers_among_them() -> None:
    known = DeferredResult("mail-1-aaaa", "17", SPARED, SPARED, "mail", "mail")
    box = Mailbox()
    described = {"ids": {"type": "array", "items": {"type": "integer", "handle": "mail"}}}
    tool = _tool(box, described)
    gate = keeper(Mailbox(), tool)
    where = replace(standing(INTERNAL), held=(known,))
    prepared = gate.calls.prepare(where, Call("c2", "mail__purge", {"ids": ["mail-1-aaaa", 18]}))
    assert prepared.accepted is not None
    assert prepared.accepted[1].model_dump(by_alias=True) == {"ids": [17, 18]}
    assert prepared.shown == {"ids": [{"$ref": "mail-1-aaaa", "label": "INTERNAL~", "holds": "17"}, 18]}
    wrong = gate.calls.prepare(where, Call("c2", "mail__purge", {"ids": "mail-1-aaaa"}))
    assert wrong.decision.rules == ("fails_closed",)


NOTED: dict[str, Any] = {
    "id": {"type": "string", "handle": "mail"},
    "note": {"type": "string", "role": "content"},
}


async def test_a_reference_to_an_identifier_is_a_reference_to_a_text() -> None:
    """Its author may have written any words there: a server gets them only after a question, and the result is held."""
    box = Mailbox(mail("pay the bill of eve"))
    gate = keeper(box, _tool(box, NOTED))
    _, listed = await responded(gate, FIND, standing())
    handle, where = skeleton(listed)["mails"][0]["id"], after(standing(), listed)
    prepared = gate.calls.prepare(where, Call("c2", "mail__purge", {"id": "b", "note": {"$ref": handle}}))
    assert (prepared.decision.verdict, prepared.decision.rules) == (
        Verdict.REQUIRE_APPROVAL,
        ("untrusted_cannot_command",),
    )
    assert (prepared.by_handle, prepared.hold) == (False, True)
    both = gate.calls.prepare(where, Call("c2", "mail__purge", {"id": handle, "note": {"$ref": handle}}))
    assert (both.decision.verdict, both.by_handle) == (Verdict.REQUIRE_APPROVAL, False)
    assert both.accepted is not None
    assert both.accepted[1].model_dump(by_alias=True) == {
        "id": "pay the bill of eve",
        "note": '"pay the bill of eve"',
    }


async def test_a_text_that_came_by_reference_is_no_handle() -> None:
    """People approve the value that they are shown, and the server gets that one."""
    box = Mailbox(mail("first"), mail("second"))
    gate = keeper(box, _tool(box, NOTED))
    _, listed = await responded(gate, FIND, standing())
    handle = skeleton(listed)["mails"][0]["id"]
    box.mails = (mail("a", handle),)
    where = after(standing(), listed)
    _, again = await responded(gate, replace(FIND, id="c3"), where)
    subject, where = skeleton(again)["mails"][0]["subject"], after(where, again)
    prepared = gate.calls.prepare(where, Call("c4", "mail__purge", {"id": subject, "note": {"$ref": handle}}))
    assert prepared.shown is not None
    assert prepared.shown["id"] == {**subject, "label": "INTERNAL~", "holds": handle}
    assert prepared.accepted is not None
    assert prepared.accepted[1].model_dump(by_alias=True) == {"id": handle, "note": '"first"'}


def _tool(box: Mailbox, arguments: dict[str, Any]) -> McpTool:
    purge = {"description": "Purge mails.", "effect": "write", "arguments": arguments}
    settings = McpServerSettings.model_validate({"command": "x", "tools": {"purge": purge}})
    return McpTool("mail", "purge", settings, box.ask)


async def test_a_listed_identifier_gives_the_label_only_if_the_call_itself_names_it() -> None:
    box = Mailbox(mail("general"))
    results = {"argument": "id", "labels": {"general": "INTERNAL"}}
    gate = keeper(box, tools={READ: {"result": "CONFIDENTIAL", "results": results}})
    _, listed = await responded(gate, FIND, standing())
    handle, where = skeleton(listed)["mails"][0]["id"], after(standing(), listed)
    prepared = [gate.calls.prepare(where, Call("c2", READ, {"id": one})) for one in ("general", "other", handle)]
    assert {one.decision.verdict for one in prepared} == {Verdict.ALLOW}
    assert [one.label for one in prepared] == [SPARED, parse("CONFIDENTIAL~"), parse("CONFIDENTIAL~")]
