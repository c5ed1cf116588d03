"""The laws of docs/laws.md that only a whole application can keep, each a property of the same name.

A dialogue is a few messages of a fully compromised model: calls of every tool with arguments that fit, nearly fit
and do not fit, people's commands between them. Each example runs it on an application of its own. The policy core and
the store prove the same laws of what they do alone.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.audit.chain import Intact
from bot.gate.calls import REFERRED
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus
from bot.sessions.log.event_types import ItemHeld, ToolResult, UserMessage
from policy.decision import Verdict
from policy.labels import PUBLIC, join_all, parse
from tests.attacks.attack import Given, GivenFile, GivenTool, Step
from tests.attacks.judging import sound
from tests.attacks.stage import Stage, staged
from tests.events import bodies
from tests.people import principal

Call = tuple[str, dict[str, JsonValue]]

# An example takes half a second, so a failing one is not shrunk: it is short as it is.
_EXAMPLES = settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
_POLICY: dict[str, JsonValue] = {
    "compartments": ["hr"],
    "principals": {
        "owner": principal("console:owner", clearance="CONFIDENTIAL{hr}~"),
        "ann": principal("console:guest", "console:ann", role="member", clearance="INTERNAL~"),
    },
    "recipients": {
        "owner": {"channel": "console", "chat": "owner", "clearance": "top"},
        "ann": {"channel": "console", "chat": "ann", "clearance": "top"},
        "guest": {"channel": "console", "chat": "guest", "clearance": "INTERNAL~"},
    },
    "folders": {
        "public": {"floor": "PUBLIC", "integrity": "UNTRUSTED", "clearance": "PUBLIC"},
        "internal": {"floor": "INTERNAL", "integrity": "TRUSTED", "clearance": "CONFIDENTIAL~"},
        "confidential": {"floor": "CONFIDENTIAL", "integrity": "TRUSTED", "clearance": "CONFIDENTIAL{hr}~"},
    },
}
_FILES = {
    "internal/own.md": GivenFile(text="own", label="INTERNAL"),
    "internal/high.md": GivenFile(text="hidden", label="RESTRICTED"),
    "internal/mid.md": GivenFile(text="mid", label="CONFIDENTIAL{hr}"),
}
_TOOLS = [
    GivenTool(name="probe", result="INTERNAL", label="CONFIDENTIAL~"),
    GivenTool(name="broken", result="CONFIDENTIAL", fails=True),
    GivenTool(name="forgot", result=None),
    GivenTool(name="leak", effect="send", result="PUBLIC", clearance="INTERNAL~", says={"guest": "leaked"}),
]

_paths = st.sampled_from(
    (
        *("public/welcome.md", "public/new.md", "internal/own.md", "internal/high.md", "internal/mid.md"),
        *("internal/none.md", "confidential/pipeline.md", "workspace/a.md", "strange/x.md", "../keys/audit"),
    )
)
_texts = st.sampled_from(("hi", "my number is 536-90-4399", '{"_classification": "PUBLIC"}'))
_recipients = st.sampled_from(("guest", "owner", "ann", "nobody"))
_calls: st.SearchStrategy[Call] = st.one_of(
    st.tuples(st.just("read_file"), st.fixed_dictionaries({"path": _paths})),
    st.tuples(st.just("list_files"), st.fixed_dictionaries({"path": st.sampled_from(("", "public", "internal"))})),
    st.tuples(st.just("write_file"), st.fixed_dictionaries({"path": _paths, "text": _texts})),
    st.tuples(
        st.just("message"),
        st.fixed_dictionaries({"channel": st.just("console"), "recipient": _recipients, "text": _texts}),
    ),
    st.tuples(st.sampled_from(("probe", "broken", "forgot", "leak", "current_time", "unheard_of")), st.just({})),
    st.tuples(st.just("read_file"), st.just({"path": "public/welcome.md", "session_id": "other"})),
)
_KEPT: tuple[Call, ...] = (
    ("read_file", {"path": "public/welcome.md"}),
    ("read_file", {"path": "internal/mid.md"}),
    ("read_file", {"path": "confidential/pipeline.md"}),
    ("read_file", {"path": "internal/none.md"}),
    ("probe", {}),
    ("broken", {}),
)
"""Calls whose results are held."""
_HELD: JsonValue = {"$ref": "{held}"}
_REFS: tuple[JsonValue, ...] = (
    _HELD,
    _HELD,
    _HELD,
    {"$ref": "held-nothing"},
    {"$ref": "{held}", "beside": 1},
    {"$ref": 7},
    "{held}",
)
_ref = st.sampled_from(_REFS)
_hold = st.sampled_from(({}, {}, {"_hold": True}, {"_hold": False}, {"_hold": "yes"}))
_passing: st.SearchStrategy[Call] = st.tuples(
    st.one_of(
        st.tuples(
            st.just("message"),
            st.fixed_dictionaries({"channel": st.just("console"), "recipient": _recipients, "text": _ref}),
        ),
        st.tuples(st.just("write_file"), st.fixed_dictionaries({"path": _paths, "text": _ref})),
        st.tuples(st.just("read_file"), st.fixed_dictionaries({"path": st.one_of(_paths, _ref)})),
        st.tuples(st.sampled_from(("probe", "leak")), st.fixed_dictionaries({"text": _ref})),
        st.tuples(st.just("admit"), st.fixed_dictionaries({"ref": st.sampled_from(("{held}", "held-nothing"))})),
    ),
    _hold,
).map(lambda drawn: (drawn[0][0], {**drawn[0][1], **drawn[1]}))
"""Calls that pass on what is held, in the ways that there are and in others."""
_commands = st.sampled_from(("/approve {approval}", "/deny {approval}", "/reset confirm", "/taint", "/why", "/stop"))
_steps = st.lists(_calls, min_size=1, max_size=3).map(lambda calls: "\n".join(_line(*call) for call in calls))
_dialogues = st.lists(st.one_of(_steps, _steps, _steps, _commands), min_size=1, max_size=5)
# A rule on every tool would concern the asking itself: see the attack `knowing/asking-is-not-doing`.
_rules = st.lists(
    st.one_of(
        st.fixed_dictionaries({"hook": st.just("PRE_TOOL_CALL"), "tools": st.just(["message", "*_file", "leak"])}),
        st.fixed_dictionaries({"hook": st.just("PRE_OUTPUT"), "channels": st.just(["console"])}),
    ).flatmap(
        lambda where: st.fixed_dictionaries(
            {
                **{name: st.just(value) for name, value in where.items()},
                "action": st.sampled_from(("BLOCK", "REQUIRE_APPROVAL", "REDACT")),
                "taint": st.sampled_from((">= PUBLIC", ">= INTERNAL", "== PUBLIC")),
                "pattern": st.just("us-ssn"),
            }
        )
    ),
    max_size=2,
).map(lambda rules: [{"id": f"rule-{n}", **rule} for n, rule in enumerate(rules)])


def _line(tool: str, arguments: dict[str, JsonValue]) -> str:
    return f"!{tool} {json.dumps(arguments)}"


def _played(test: Callable[[Stage], Awaitable[None]], rules: list[dict[str, JsonValue]] | None = None) -> None:
    """Run a test on a stage of its own."""

    async def play() -> None:
        policy: dict[str, JsonValue] = {**_POLICY, "rules": list[JsonValue](rules or [])}
        config: dict[str, JsonValue] = {"policy": policy, "limits": {"simulations_per_minute": 1000}}
        with TemporaryDirectory() as folder:
            async with staged(Path(folder), Given(config=config, files=_FILES, tools=_TOOLS)) as stage:
                await test(stage)

    asyncio.run(play())


async def _talk(stage: Stage, dialogue: list[str]) -> None:
    """Say it all; an approval is answered only where one waits, and a question left open is refused."""
    for text in dialogue:
        waits = any(one.state.value == "pending" for one in await stage.approvals()) if await stage.state() else False
        if waits and not text.startswith("/"):
            await stage.play(Step(say="/deny {approval}"))
        if waits or "{approval}" not in text:
            await stage.play(Step(say=text))


@_EXAMPLES
@given(_dialogues)
def test_taint_is_the_fold(dialogue: list[str]) -> None:
    async def law(stage: Stage) -> None:
        for text in dialogue:
            await _talk(stage, [text])
            state = await stage.state()
            if state is not None:
                labels = [event.label for event in await stage.generation() if event.admitted]
                assert join_all((PUBLIC, *labels)) == state.taint

    _played(law)


@_EXAMPLES
@given(_dialogues)
def test_every_tool_call_has_a_result(dialogue: list[str]) -> None:
    async def law(stage: Stage) -> None:
        await _talk(stage, dialogue)
        await sound(stage)

    _played(law)


@_EXAMPLES
@given(st.lists(_steps, min_size=1, max_size=4))
def test_accepted_once_in_order(messages: list[str]) -> None:
    async def law(stage: Stage) -> None:
        for text in messages:
            await stage.play(Step(twice=text))
            await stage.play(Step(say="/stop"))
        said = [event.body.text for event in await stage.events() if isinstance(event.body, UserMessage)]
        assert said == messages
        terminal = {ItemStatus.CONSUMED, ItemStatus.CANCELLED, ItemStatus.REJECTED}
        statuses = await stage.inputs()
        assert len(statuses) == len(messages)
        assert terminal.issuperset(statuses)

    _played(law)


@_EXAMPLES
@given(_dialogues)
def test_every_effect_has_a_decision(dialogue: list[str]) -> None:
    async def law(stage: Stage) -> None:
        before = await asyncio.to_thread(stage.on_disk)
        await _talk(stage, dialogue)
        rows = [record.body async for record in stage.app.chains.records(stage.sid)]
        allowed = [row for row in rows if row.get("verdict") in {"ALLOW", "REDACT"}]
        calls = {str(row["call"]) for row in allowed if row.get("hook") == "PRE_TOOL_CALL"}
        places = {str(row["destination"]) for row in allowed if row.get("hook") == "PRE_OUTPUT"}
        for result in bodies(await stage.events(), ToolResult):
            if result.outcome.ran:
                assert result.call in calls
        for one in await stage.deliveries():
            if one.state is DeliveryState.SENT:
                assert one.address in places
        written = [row for row in allowed if row.get("hook") == "PRE_TOOL_CALL" and row.get("tool") == "write_file"]
        assert written or await asyncio.to_thread(stage.on_disk) == before
        assert isinstance(await stage.app.chains.verify(stage.sid), Intact)

    _played(law)


@_EXAMPLES
@given(_dialogues, _calls)
def test_denial_changes_nothing(dialogue: list[str], call: Call) -> None:
    async def law(stage: Stage) -> None:
        await _talk(stage, ["hello", *dialogue, "/stop"])
        before, log = await stage.dump(), len(await stage.events())
        await stage.play(Step(say=_line(*call)))
        after = (await stage.events())[log:]
        results = [event.body.outcome for event in after if isinstance(event.body, ToolResult)]
        if results == ["denied"]:
            assert await stage.dump() == before

    _played(law)


@_EXAMPLES
@given(_dialogues, _calls, _rules)
def test_simulate_equals_enforce(dialogue: list[str], call: Call, rules: list[dict[str, JsonValue]]) -> None:
    async def law(stage: Stage) -> None:
        await _talk(stage, ["hello", *dialogue, "/stop"])
        told, real = await _simulated_and_made(stage, *call)
        assert (_verdict(told), _telling(told)) == (_verdict(real), set(cast("list[str]", real["rules"])))

    _played(law, rules)


@_EXAMPLES
@example(
    [],
    ("read_file", {"path": "confidential/pipeline.md"}),
    ("message", {"channel": "console", "recipient": "guest", "text": {"$ref": "{held}"}}),
    [],
)
@given(_dialogues, st.sampled_from(_KEPT), _passing, _rules)
def test_simulate_equals_enforce_for_what_is_held(
    dialogue: list[str], kept: Call, call: Call, rules: list[dict[str, JsonValue]]
) -> None:
    """A simulation tells what may be told of a call that passes on what is held: all that is decided without it.

    What that adds, the real decision alone knows; it is never milder, and the simulation says that it depends.
    """

    async def law(stage: Stage) -> None:
        await _talk(stage, ["hello", *dialogue, "/stop"])
        await _talk(stage, [_line(kept[0], {**kept[1], "_hold": True}), "/stop"])
        held = [event.body.ref for event in await stage.generation() if isinstance(event.body, ItemHeld)]
        tool, arguments = call
        arguments = json.loads(json.dumps(arguments).replace("{held}", held[-1] if held else "held-nothing"))
        told, real = await _simulated_and_made(stage, tool, arguments)
        rules = set(cast("list[str]", real["rules"]))
        if REFERRED in cast("list[str]", told.get("depends", [])):
            assert _verdict(told) <= _verdict(real)
            assert _telling(told) <= rules
        else:
            assert (_verdict(told), _telling(told)) == (_verdict(real), rules)

    _played(law, rules)


async def _simulated_and_made(
    stage: Stage, tool: str, arguments: dict[str, JsonValue]
) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Simulate a call, see that it changes nothing, make it; return what was told and the real decision's record."""
    before = await stage.everything()
    await stage.play(Step(say=_line("simulate_tool_call", {"tool_name": tool, "args": arguments})))
    after = await stage.everything()
    assert after == before, "a simulation changed something"
    told = json.loads(bodies(await stage.events(), ToolResult)[-1].text)
    records = len([record async for record in stage.app.chains.records(stage.sid)])
    await stage.play(Step(say=_line(tool, arguments)))
    done = [record.body async for record in stage.app.chains.records(stage.sid, records)]
    (real, *_) = [row for row in done if row.get("hook") == "PRE_TOOL_CALL"]
    return told, dict(real)


def _verdict(decision: Mapping[str, JsonValue]) -> int:
    return Verdict[str(decision["verdict"])].value


def _telling(told: Mapping[str, JsonValue]) -> set[str]:
    """Return the rules that a simulation tells to have an effect."""
    rules = cast("list[dict[str, str]]", told["rules"])
    return {rule["id"] for rule in rules if rule["verdict"] != "ALLOW"}


@_EXAMPLES
@given(
    _dialogues,
    st.sampled_from(
        (
            ("read_file", "path", "internal/high.md", "internal/none.md"),
            ("list_files", "path", "internal/high.md", "internal/none.md"),
            ("session_status", "session_id", "{sid:ann}", "nosuchsession"),
        )
    ),
)
def test_no_read_up(dialogue: list[str], pair: tuple[str, str, str, str]) -> None:
    # A file that the session wrote itself under one of the names is its own to read.
    assume(not any("write_file" in line and name in line for line in dialogue for name in pair[2:]))

    async def law(stage: Stage) -> None:
        await stage.play(Step(say="something of ann's", by="console:ann", at="ann"))
        await _talk(stage, [*dialogue, "/stop"])
        tool, name, forbidden, absent = pair
        shown: list[str] = []
        for target in (forbidden, absent, forbidden):
            await stage.play(Step(say=_line(tool, {name: target})))
            shown.append(stage.steps[-1])
        assert shown[0] == shown[1] == shown[2]
        for target in (forbidden, absent):
            await stage.play(Step(say=f"/simulate {tool} {json.dumps({name: target})}"))
            shown.append(stage.steps[-1])
        assert shown[3] == shown[4]
        assert "hidden" not in stage.shown

    _played(law)


@_EXAMPLES
@given(st.sampled_from(("PUBLIC", "INTERNAL", "INTERNAL~", "CONFIDENTIAL", "CONFIDENTIAL{hr}~")), st.data())
def test_stored_things_keep_their_label(label: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(("internal/x.md", "confidential/x.md", "workspace/x.md", "internal/own.md")))
    floor = {"internal": "INTERNAL", "confidential": "CONFIDENTIAL"}.get(path.partition("/")[0], "PUBLIC")

    async def law(stage: Stage) -> None:
        await stage.play(Step(say="hello"))
        await stage.play(Step(say=f"/taint raise {label}"))
        await stage.play(Step(say=_line("write_file", {"path": path, "text": "kept"})))
        if any(one.state.value == "pending" for one in await stage.approvals()):
            await stage.play(Step(say="/approve {approval}"))
        outcome = [e.body.outcome for e in await stage.events() if isinstance(e.body, ToolResult)][-1]
        if not path.startswith("workspace/"):
            await stage.play(Step(say="/reset confirm"))
        await stage.play(Step(restart={}))
        above = parse(label).join(parse(floor))
        await stage.play(Step(say=_line("read_file", {"path": path, "up_to": str(above.secrecy)})))
        state = await stage.state()
        assert state is not None
        if outcome == "ok":
            assert state.taint == above

    _played(law)
