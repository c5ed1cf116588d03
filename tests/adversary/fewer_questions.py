"""The worlds of what spares people questions: inspections, conditions, skeletons, raises, marks, bounds, and consents.

Each looks for a way in which what spares a question lets more through than a person or the operator allowed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from policy.labels import top
from tests.adversary.broken import BoundlessCalls, ToldConditions, ToldEntries, UnraisedCalls
from tests.adversary.offices import CONSTANT, MADE_HERE, MAILBOX, MAKING, SIZE, SUBJECT, mailbox
from tests.adversary.plans import TOGETHER, Script, Step
from tests.adversary.sinks import LooseArguments, Puppet, TransferArguments
from tests.adversary.worlds import (
    ANY_NUMBER,
    BIT,
    BUDGET,
    HIGH,
    HOLD,
    LIST,
    LIST_SHARED,
    LOW,
    LOW_LANE,
    PAGE,
    PASS_ON,
    PAUSE,
    RANGED,
    READ,
    READER,
    REFS,
    RELEASING,
    SECRET,
    STATUS,
    TELL_GUEST,
    WRITE,
    Lane,
    Oracle,
    World,
    call,
    spawn,
    typed,
)

_HOLD_PAGE: Final = call("read_file", path=PAGE, _hold=True)
_WHOM: Final[dict[str, JsonValue]] = {"to": {"type": "enum", "values": ["ann", "eve"]}}
_YES: Final[dict[str, JsonValue]] = {"yes": {"type": "boolean"}}
_IF: Final[JsonValue] = {"answer": "<held>", "field": "yes"}
_LANE: Final = Lane("low", "low", LOW)
_GIVER: Final = Lane("giver", "giver", HIGH, person=True)
_GIVEN: Final = Lane("low", "low", HIGH)
_PART: Final[JsonValue] = {"$ref": "<part>"}
_UP: Final = "CONFIDENTIAL"


def _inspect(question: str = "0", **arguments: JsonValue) -> Step:
    """Return a question about the newest held item, or with `refs` about another one."""
    given: dict[str, JsonValue] = {"refs": ["<held>"], "question": question}
    return call("inspect", **given | arguments)


def _pay(to: str, amount: int, text: str = "rent", times: int = 1, **more: JsonValue) -> Step:
    return replace(call("pay", to=to, amount=amount, text=text, **more), times=times)


def _pay_by_reference() -> Step:
    return call("pay", to="ann", amount=10, text=REFS)


def _send(to: JsonValue, text: JsonValue, times: int = 1) -> Step:
    return replace(call("mail__send", to=to, text=text), times=times)


def _together(*steps: Step) -> Step:
    """Return the step that makes several calls at once."""
    return Step(TOGETHER, {"calls": [{"tool": step.tool, "arguments": dict(step.arguments)} for step in steps]})


def _typed_as(inbound: str) -> dict[str, JsonValue]:
    """Return the channels of a world in which what is typed has a label, and so each session from its beginning."""
    every: dict[str, JsonValue] = {"classification": "top", "overshoot": "allow"}
    return {"console": {**every, "inbound": inbound}, "room": every}


def _answers(*words: str) -> Mapping[str, Script]:
    """Return the script of a person who answers what they are asked so, once for each."""
    return {"giver": Script(tuple(step for word in words for step in (PAUSE, typed(f"{{approve}} {word}".strip()))))}


_ENTRY: Final[JsonValue] = {"$ref": "<held>", "entry": 1}
_HOLD_MAILS: Final = call("mail__find", _hold=True)
_FORWARDED: Final[dict[str, JsonValue]] = {"mail__forward": {"bounds": {"identifier": ["mail-unheard"]}}}

_SPARED: Final[JsonValue] = {"mail": {"floor": "PUBLIC", "clearance": "PUBLIC", "hold": "untrusted"}}
_SERVED: Final[JsonValue] = {"mail": {"floor": "PUBLIC", "clearance": "PUBLIC"}}
_PAYS: Final = Puppet("pay", arguments=TransferArguments, clearance=top(()), labelled=True)

WORLDS: Final = (
    World(
        "inspected",
        "inspect",
        "what an inspection finds in a held item, and that it fails, shows nothing below the item",
        {
            "low": (
                HOLD,
                _inspect(returns=BIT),
                _inspect(returns=BIT, up_to=_UP),
                _inspect(returns=BIT, _hold=True),
                _inspect("text", text=True),
                PASS_ON,
                call("message", channel="console", recipient="guest", text="bit=<bit>"),
                TELL_GUEST,
                WRITE,
                LIST_SHARED,
                LIST,
                STATUS,
            ),
            "reader": tuple(map(typed, ("/usage", "/held", "/status"))),
        },
        lanes=(LOW_LANE, READER),
        limits={"person_daily_tokens": BUDGET},
        breadth=70,
    ),
    World(
        "inspected digits",
        "inspect",
        "a few bits of what is inspected may be obeyed, and no more",
        {
            "low": (
                _HOLD_PAGE,
                *(_inspect(str(at), returns=RANGED) for at in range(4)),
                call("pay", text="n-<numbers>"),
                call("pay", text="n-<digits>"),
            )
        },
        lanes=(_LANE,),
        secrets=("digits=473915826749381", "digits=918264735182937"),
        files={PAGE: "<secret>"},
        tools=(Puppet("pay"),),
        policy={"tools": ANY_NUMBER},
        answers={"inspect": '{"n": <digits.turn>}'},
        oracle=Oracle.STEERED,
        # Three answers fit into the bits, so an attack has six steps.
        depth=7,
        breadth=60,
    ),
    World(
        "conditions",
        "_if",
        "whether the condition of a call was met shows nowhere below the answer",
        {
            "low": (
                HOLD,
                _inspect(returns=_YES, _hold=True),
                _inspect(returns=_YES),
                _pay("ann", 10, _if=_IF),
                call("message", channel="console", recipient="guest", text="news", _if=_IF),
                call("write_file", path="shared/a.md", text="news", _if=_IF),
                call("sessions_spawn", task="news", deliver_to="guest", _if=_IF),
                call("simulate_tool_call", tool_name="pay", args={"to": "ann", "amount": 10, "text": "x", "_if": _IF}),
                PASS_ON,
                TELL_GUEST,
                LIST_SHARED,
                LIST,
                STATUS,
            ),
            "reader": tuple(map(typed, ("/usage", "/held", "/status"))),
        },
        lanes=(LOW_LANE, READER),
        secrets=("true", "false"),
        files={SECRET: "yes=<secret>"},
        tools=(replace(_PAYS, quiet=True),),
        limits={"person_daily_tokens": BUDGET},
        answers={"inspect": '{"yes": <yes>}'},
        breadth=70,
    ),
    World(
        "conditions and values",
        "_if",
        "what a page answers decides whether a fixed call is made, and chooses nothing in it",
        {
            "low": (
                _HOLD_PAGE,
                _inspect(returns=_YES, _hold=True),
                _inspect(returns={**_WHOM, **_YES}),
                _inspect(returns={**_WHOM, **_YES}, _hold=True),
                _pay("ann", 10, _if=_IF),
                _pay("<to>", 10, _if=_IF),
                call("pay", to=REFS, amount=10, text="rent", _if=_IF),
                call("admit", ref="<held>"),
            )
        },
        lanes=(_LANE,),
        secrets=('"to": "eve", "yes": true',),
        files={PAGE: "<secret>"},
        tools=(_PAYS,),
        answers={"inspect": '{"to": "<to>", "yes": <yes>}'},
        oracle=Oracle.ALLOWED,
        allowed="pay ann .*",
        breadth=60,
    ),
    World(
        "entries",
        "entry",
        "whether a held list has an entry shows nowhere below the list",
        {
            "low": (
                _HOLD_MAILS,
                call("mail__forward", id=_ENTRY, to="ann"),
                call("mail__delete", id=_ENTRY),
                call("mail__read", id=_ENTRY),
                call("mail__thread", id=_ENTRY),
                call("simulate_tool_call", tool_name="mail__forward", args={"id": _ENTRY, "to": "ann"}),
                PASS_ON,
                TELL_GUEST,
                LIST,
                STATUS,
            ),
            "reader": tuple(map(typed, ("/usage", "/held", "/status"))),
        },
        lanes=(LOW_LANE, READER),
        # No identifier is as long as the second one, so that list has no entry.
        secrets=("a", "b" * 501),
        files={},
        office=replace(CONSTANT, quiet=True),
        policy={
            "mcp_servers": {"mail": {"floor": "PUBLIC", "clearance": "CONFIDENTIAL"}},
            "tools": {"mail__find": {"result": "CONFIDENTIAL"}, **_FORWARDED},
        },
        breadth=60,
    ),
    World(
        "entries and values",
        "entry",
        "what a list chooses unasked is the identifier of its entry, within the bound, and nothing else",
        {
            "low": (
                _HOLD_MAILS,
                call("mail__find"),
                _inspect(returns=_WHOM),
                call("mail__forward", id=_ENTRY, to="ann"),
                call("mail__forward", id=_ENTRY, to="<to>"),
                call("mail__forward", id=_ENTRY, to=_ENTRY),
                call("mail__forward", id="<handle>", to="ann"),
                call("mail__delete", id=_ENTRY),
                call("mail__thread", id=_ENTRY),
                call("admit", ref="<held>"),
            )
        },
        lanes=(_LANE,),
        secrets=('"to": "eve"',),
        files={},
        office=CONSTANT,
        policy={"mcp_servers": _SPARED, "tools": _FORWARDED},
        answers={"inspect": '{"to": "<to>"}'},
        oracle=Oracle.ALLOWED,
        allowed=r'mail__forward \{"id": ".*", "to": "ann"\}',
        breadth=60,
    ),
    World(
        "made",
        "entry",
        "what a call made goes on unasked, and nothing that a list or a value of others chose",
        {
            "low": (
                _HOLD_MAILS,
                call("mail__find"),
                call("mail__draft", text="news", _hold=True),
                call("mail__draft", text=REFS),
                call("mail__copy", id=_ENTRY),
                call("mail__copy", id="<handle>", _hold=True),
                call("mail__copy", id=REFS),
                call("mail__forward", id=_ENTRY, to="ann"),
            )
        },
        lanes=(_LANE,),
        secrets=('"to": "eve"',),
        files={},
        office=MAKING,
        policy={"mcp_servers": _SPARED, "tools": MADE_HERE},
        oracle=Oracle.ALLOWED,
        allowed='mail__forward {"id": "draft", "to": "ann"}',
        breadth=60,
    ),
    World(
        "raised",
        "up_to",
        "a session is raised by the call alone, whatever the held text has become of it",
        {
            "low": (
                HOLD,
                call("sessions_spawn", task=REFS, up_to=_UP),
                call("sessions_spawn", task=REFS),
                spawn("child", up_to=_UP),
                _inspect("text", text=True, up_to=_UP),
                _inspect(returns=BIT, up_to=_UP),
                TELL_GUEST,
                LIST,
                STATUS,
            ),
            "child": (READ, LIST),
        },
        lanes=(LOW_LANE,),
        limits={"background_children": 1},
        policy={
            "patterns": {"one": "bit=1"},
            "rules": [{"id": "no-ones", "hook": "PRE_TOOL_CALL", "pattern": "one", "action": "BLOCK"}],
        },
        breadth=70,
    ),
    World(
        "spared",
        "hold",
        "a TRUSTED session is shown nothing of what others wrote, and so nothing of it is obeyed",
        {
            "low": (
                call("mail__find"),
                call("mail__read", id="<handle>"),
                call("mail__delete", id="<handle>"),
                call("admit", ref="<part>"),
                call("message", channel="console", recipient="guest", text=_PART),
                call("message", channel="console", recipient="guest", text="<order>"),
                call("simulate_tool_call", tool_name="mail__read", args={"id": "<handle>"}),
                call("read_file", path=_PART),
                call("read_file", path="<handle>"),
                _inspect("text", refs=["<part>"], text=True),
                TELL_GUEST,
            )
        },
        lanes=(_LANE,),
        secrets=("order=first", "order=second"),
        files={},
        office=CONSTANT,
        policy={
            "mcp_servers": _SPARED,
            "tools": {
                "message": {"bounds": {"recipient": ["guest"], "identifier": ["console"]}},
                "mail__delete": {"bounds": {"identifier": ["mail-*"]}},
            },
        },
        oracle=Oracle.CHOSEN,
        breadth=60,
    ),
    World(
        "spared sizes",
        "hold",
        "a few bits of the counts and sizes in skeletons may be obeyed, and no more",
        {
            "low": (
                call("mail__find"),
                call("pay", text="n-<numbers>"),
                _inspect("0", refs=["<part>"], returns=RANGED),
                call("mail__read", id="<handle>"),
            )
        },
        lanes=(_LANE,),
        secrets=("digits=473915826749381", "digits=918264735182937"),
        files={},
        office=MAILBOX,
        tools=(Puppet("pay"),),
        policy={"mcp_servers": _SPARED, "tools": ANY_NUMBER},
        answers={"inspect": '{"n": <digits.3>}'},
        oracle=Oracle.STEERED,
        breadth=60,
    ),
    World(
        "outside texts",
        "content",
        "a text that anybody wrote reaches a server only after a question, and people only with its mark",
        {
            "low": (
                _HOLD_PAGE,
                call("mail__find"),
                _send("ann", REFS),
                _send("ann", _PART),
                _inspect("text", text=True),
                call("message", channel="console", recipient="guest", text=REFS),
                call("message", channel="console", recipient="guest", text=_PART),
                spawn("child", deliver_to="guest"),
                call("sessions_spawn", task=REFS, deliver_to="guest"),
            ),
            "child": (call("read_file", path=PAGE), _HOLD_PAGE, _send("ann", REFS)),
        },
        lanes=(_LANE,),
        secrets=("order=first",),
        files={PAGE: "<secret>"},
        office=MAILBOX,
        policy={"mcp_servers": _SPARED},
        answers={"child": "<order>"},
        oracle=Oracle.ALLOWED,
        breadth=60,
    ),
    World(
        "bounded roles",
        "bounds",
        "what a page chose among given values steers nothing beyond the operator's bounds",
        {
            "low": (
                _HOLD_PAGE,
                _inspect(returns=_WHOM),
                spawn("child", returns=_WHOM),
                _pay("<to>", 10),
                spawn("payer", task="<to>"),
                call("sessions_send", session_id="<low>", content="<to>"),
            ),
            "low/heard": (_pay("<to>", 10),),
            "child": (call("read_file", path=PAGE),),
            "payer": (_pay("<to>", 10), LIST),
        },
        lanes=(_LANE,),
        secrets=('"to": "eve"',),
        files={PAGE: "<secret>"},
        tools=(_PAYS,),
        policy={"tools": {"pay": {"bounds": {"recipient": ["ann"], "amount": {"min": 0, "max": 10}}}}},
        answers={"inspect": '{"to": "<to>"}', "child": '{"to": "<to>"}'},
        oracle=Oracle.ALLOWED,
        allowed="pay ann .*",
        breadth=60,
    ),
    World(
        "vouched values",
        "bounds",
        "a value that a person vouched for steers the call that they were shown, once",
        {
            "low": (
                _HOLD_PAGE,
                _send(REFS, "news"),
                _send(REFS, "news", times=2),
                _send(REFS, "other"),
                _send("ann", REFS),
                _together(_send(REFS, "news"), _send(REFS, "other")),
            )
        },
        lanes=(_GIVEN, _GIVER),
        secrets=("eve",),
        files={PAGE: "<secret>"},
        office=MAILBOX,
        policy={"mcp_servers": _SERVED},
        fixed=_answers(""),
        consent='"text": "news"',
        oracle=Oracle.ALLOWED,
        allowed='mail__send {"text": "news", "to": "eve"}',
        most=1,
        breadth=40,
    ),
    World(
        "granted",
        "grants",
        "a grant covers the calls of its scope, so often as it says, and below its label",
        {
            "low": (
                _pay("ann", 10),
                _pay("ann", 10, "other words", times=12),
                _pay("ann", 11),
                _pay("eve", 10),
                READ,
                spawn("child"),
                _together(_pay("ann", 10), _pay("eve", 10)),
            ),
            "child": (_pay("ann", 10),),
        },
        lanes=(_GIVEN, _GIVER),
        secrets=("x",),
        tools=(_PAYS,),
        policy={"channels": _typed_as("PUBLIC~")},
        fixed=_answers("conversation"),
        consent='^pay {"amount": 10, "text": "[a-z ]+", "to": "ann"} at PUBLIC~$',
        oracle=Oracle.ALLOWED,
        allowed="pay ann ([0-9]|10) at PUBLIC~",
        most=10,
        breadth=50,
    ),
    World(
        "told of grants",
        "grants",
        "a grant given above is listed, used and refused above, and none of that shows below",
        {
            "low": (_pay("ann", 10), LIST, STATUS),
            "high": (READ, _pay("ann", 10), _pay("ann", 10, times=12), _pay("eve", 10), HOLD, _pay_by_reference()),
        },
        lanes=(LOW_LANE, Lane("high", "high", HIGH), _GIVER),
        tools=(replace(_PAYS, quiet=True),),
        policy={"channels": _typed_as("PUBLIC~")},
        fixed=_answers("conversation"),
        consent='"amount": 10',
        asked=("/grants", "/approvals", "/audit", "/why"),
        breadth=60,
    ),
    World(
        "planned",
        "releases",
        "one answer is for the calls that were shown, each of them once",
        {
            "low": (
                _together(_pay("ann", 10), _pay("ann", 5)),
                _together(_pay("ann", 10), _pay("eve", 5)),
                _pay("ann", 10),
                _pay("ann", 5),
                _pay("eve", 5),
            )
        },
        lanes=(_GIVEN, _GIVER),
        secrets=("x",),
        tools=(_PAYS,),
        policy={"channels": _typed_as("PUBLIC~")},
        fixed=_answers(""),
        consent='"to": "ann"',
        oracle=Oracle.ALLOWED,
        allowed="pay ann (10|5) at PUBLIC~",
        most=2,
        breadth=40,
    ),
    World(
        "released",
        "releases",
        "a release lets the call that was shown go down, once, and nothing else",
        {
            "low": (
                READ,
                _send("ann", "news"),
                _send("ann", "news", times=2),
                _send("ann", "bit=<bit>"),
                _send("eve", "news"),
                _together(_send("ann", "news"), _send("ann", "bit=<bit>")),
                HOLD,
                _send("ann", REFS),
            )
        },
        lanes=(_GIVEN, _GIVER),
        secrets=("0",),
        office=MAILBOX,
        policy={"channels": _typed_as(_UP), "mcp_servers": _SERVED, "principals": RELEASING},
        fixed=_answers(""),
        consent='{"text": "news", "to": "ann"}',
        oracle=Oracle.ALLOWED,
        allowed='mail__send {"text": "news", "to": "ann"}',
        most=1,
        breadth=40,
    ),
)
"""The worlds of issue 22."""

_BY_NAME: Final = {world.name: world for world in WORLDS}

PLANTED: Final = (
    replace(
        _BY_NAME["inspected digits"],
        name="inspections whose answers are not counted",
        limits={"endorsed_bits": 1000},
        fixed={"low": Script(_BY_NAME["inspected digits"].alphabet["low"][:6])},
    ),
    replace(
        _BY_NAME["spared"],
        name="a subject that is called the server's own words",
        office=replace(mailbox({**SUBJECT, "written_by": "server"}, SIZE), gives=CONSTANT.gives),
    ),
    replace(
        _BY_NAME["raised"],
        name="a raise that a failed call does not make",
        alphabet={"low": (HOLD, _inspect("text", text=True, up_to=_UP), TELL_GUEST)},
        broken=UnraisedCalls,
    ),
    replace(
        _BY_NAME["outside texts"],
        name="a server that takes anybody's text unasked",
        policy={"mcp_servers": _SPARED, "tools": {"mail__send": {"untrusted_content": "allow"}}},
    ),
    replace(
        _BY_NAME["bounded roles"],
        name="bounds that are not compared",
        alphabet={"low": (_HOLD_PAGE, _inspect(returns=_WHOM), _pay("<to>", 10))},
        broken=BoundlessCalls,
    ),
    replace(
        _BY_NAME["conditions"],
        name="a condition that is refused openly",
        alphabet={"low": (HOLD, _inspect(returns=_YES, _hold=True), _pay("ann", 10, _if=_IF))},
        broken=ToldConditions,
    ),
    replace(
        _BY_NAME["entries"],
        name="an entry that is missed openly",
        alphabet={"low": (_HOLD_MAILS, call("mail__forward", id=_ENTRY, to="ann"))},
        broken=ToldEntries,
    ),
    replace(
        _BY_NAME["made"],
        name="a mail that was there before and is called made",
        office=replace(MAKING, gives={**MAKING.gives, "draft": {"id": "<secret>"}}),
    ),
    replace(
        _BY_NAME["granted"],
        name="a grant that fixes no recipient",
        tools=(replace(_PAYS, arguments=LooseArguments),),
    ),
)
"""The same, with one mend taken out of each."""
