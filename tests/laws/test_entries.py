"""Laws `no_read_up` and `endorsed_cannot_steer` for calls that take an entry of a held list.

Two worlds differ in the list: its order, its length, its label, or that it failed. The model reads the same in both,
and people are asked in neither. What a server is asked to do differs in the identifier alone, which is one of the list.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import ItemHeld
from bot.tools.base import Result
from bot.tools.held.skeletons import Shape
from policy.labels import parse
from tests.bot.kit import Probe, Scripted, parts, proposed
from tests.bot.mailbox import mail
from tests.bot.tools.held.moving import BOUNDED, config, moving
from tests.events import bodies
from tests.harness import running

_EXAMPLES = settings(max_examples=6, phases=[Phase.explicit, Phase.reuse, Phase.generate])

_IDS: Final = ("a", "b", "c")


def _listed(*mails: dict[str, JsonValue]) -> JsonValue:
    return {"status": "ok", "mails": [*mails]}


_LISTS: Final[dict[str, JsonValue]] = {
    "whole": _listed(mail("a"), mail("b"), mail("c")),
    "turned": _listed(mail("c"), mail("a"), mail("b")),
    "one": _listed(mail("b")),
    "empty": _listed(),
    "misfit": _listed(mail("a"), {"id": "b"}),
    "too many": _listed(mail("a"), mail("a"), mail("a"), mail("a")),
    "a card": _listed(mail("4111 1111 1111 1111")),
    "failed": None,
}
_RULES: Final = [{"id": "no-cards", "hook": "PRE_TOOL_CALL", "action": "BLOCK", "pattern": "payment-card"}]

_Use = tuple[str, dict[str, JsonValue]]

_THREAD: Final[_Use] = ("mail__thread", {"id": 3})
"""A call whose result has a list of its own."""

_AGAIN: Final[_Use] = ("mail__read", {"id": 1})
"""A call that takes an entry of that list, whether or not the other call was made."""

_worlds = st.tuples(
    st.sampled_from(sorted(_LISTS)), st.sampled_from(("PUBLIC~", "INTERNAL~", "CONFIDENTIAL~", "RESTRICTED~"))
)
_uses = st.lists(
    st.sampled_from(
        (
            ("mail__move", {"id": 1, "folder": "bills"}),
            ("mail__move", {"id": 3, "folder": "bills"}),
            ("mail__tag", {"ids": [2, 1], "tag": "bill"}),
            ("mail__read", {"id": 2}),
            _THREAD,
        )
    ),
    min_size=1,
    max_size=4,
)


@dataclass
class _Listing(Probe):
    """A tool whose result lists mails, with any label."""

    shape: Shape | None = field(default=None)


def _named(value: JsonValue, ref: str) -> JsonValue:
    """Return arguments with references to entries in place of numbers."""
    if isinstance(value, dict):
        return {name: _named(inner, ref) for name, inner in value.items()}
    if isinstance(value, list):
        return [_named(one, ref) for one in value]
    return {"$ref": ref, "entry": value} if isinstance(value, int) else value


async def _done(folder: Path, world: tuple[str, str], uses: Sequence[_Use]) -> tuple[str, list[JsonValue]]:
    """Make these calls on a held list; return all that the model reads, and what the server was asked to do."""
    box, (name, label), model = moving(*map(mail, _IDS)), world, Scripted()
    find = next(tool for tool in box.tools if tool.name == "mail__find")
    found = Result("mails", parse(label), failed=_LISTS[name] is None, structured=_LISTS[name])
    listing = _Listing("mail__find", result=found, server="mail", shape=find.shape)
    others = [tool for tool in box.tools if tool.name != "mail__find"]
    async with running(folder, config(rules=_RULES), parts=parts(listing, *others, model=model)) as owner:
        model.then([proposed("mail__find", {"_hold": True}, name="f")], "held")
        await owner.say("look")
        (held,) = bodies(await owner.events(), ItemHeld)
        calls = list[tuple[str, dict[str, JsonValue]]]()
        for tool, arguments in uses:
            given = _named(arguments, held.ref)
            assert isinstance(given, dict)
            calls.append((tool, given))
        model.then(*([proposed(*one, name=f"c{number}")] for number, one in enumerate(calls)), "done")
        await owner.say("use them")
        _, *results = bodies(await owner.events(), ItemHeld)
        again = list[tuple[str, dict[str, JsonValue]]]()
        for (tool, _), result in zip(calls, results, strict=True):
            given = _named(_AGAIN[1], result.ref)
            assert isinstance(given, dict)
            again += [(_AGAIN[0], given)] if tool == _THREAD[0] else []
        # A result that enters counts as one that may tell of the calls before it, so this is last.
        move: dict[str, JsonValue] = {"id": {"$ref": held.ref, "entry": 1}, "folder": "bills"}
        after = [
            proposed("simulate_tool_call", {"tool_name": "mail__move", "args": move}, name="m"),
            proposed("sessions_history", {"session_id": "", "include_tools": True}, name="h"),
            proposed("sessions_list", {}, name="l"),
            proposed("session_status", {}, name="s"),
        ]
        steps = [[proposed(*one, name=f"a{number}")] for number, one in enumerate(again)]
        model.then(*steps, after, "done")
        await owner.say("move the first")
        assert await owner.app.store.approvals.of(owner.sid) == ()
        assert not (await owner.state()).taint.untrusted
        read = re.sub(r'"(at|created|updated)": [0-9]+', '"at": 0', model.read().replace(owner.sid, "own"))
        read = re.sub(r"\"id\": \"[a-z0-9]{16}\"", "turn", read)
        return re.sub(r"held-[a-z0-9]{16}", "id", read), [{"tool": tool, **given} for tool, given in box.asked]


@_EXAMPLES
@example(("whole", "PUBLIC~"), ("empty", "PUBLIC~"), [("mail__move", {"id": 1, "folder": "bills"})])
@example(("whole", "PUBLIC~"), ("turned", "CONFIDENTIAL~"), [("mail__tag", {"ids": [2, 1], "tag": "bill"})])
@example(
    ("one", "PUBLIC~"), ("failed", "PUBLIC~"), [("mail__read", {"id": 2}), ("mail__move", {"id": 3, "folder": "x"})]
)
@example(("whole", "PUBLIC~"), ("a card", "PUBLIC~"), [("mail__move", {"id": 1, "folder": "bills"})])
@example(("whole", "PUBLIC~"), ("one", "PUBLIC~"), [_THREAD])
@example(("whole", "PUBLIC~"), ("whole", "CONFIDENTIAL~"), [_THREAD])
@given(_worlds, _worlds, _uses)
def test_no_read_up_by_an_entry_which_chooses_its_identifier_alone(
    one: tuple[str, str], other: tuple[str, str], uses: list[_Use]
) -> None:
    async def law() -> None:
        told = list[str]()
        for world in (one, other):
            with TemporaryDirectory() as folder:
                read, made = await _done(Path(folder), world, uses)
            told.append(read)
            later = [_AGAIN for tool, _ in uses if tool == _THREAD[0]]
            fixed = [{"tool": tool.removeprefix("mail__"), **given} for tool, given in (*uses, *later)]
            assert all(_without_ids(call) in map(_without_ids, fixed) for call in made)
            assert all(one in _IDS for call in made for one in _ids(call))
            if world == ("whole", "PUBLIC~"):
                assert made == [_filled(call) for call in fixed]
            if not parse(world[1]).flows_to(parse("INTERNAL~")):
                assert made == []
        assert told[0] == told[1]

    anyio.run(law)


def _without_ids(call: JsonValue) -> JsonValue:
    assert isinstance(call, dict)
    return {name: value for name, value in call.items() if name not in {"id", "ids"}}


def _ids(call: JsonValue) -> list[JsonValue]:
    assert isinstance(call, dict)
    several = call.get("ids")
    return [call["id"]] if "id" in call else several if isinstance(several, list) else []


def _filled(call: dict[str, JsonValue]) -> JsonValue:
    """Return a fixed call as it is made with the whole list."""

    def one(place: JsonValue) -> JsonValue:
        return _IDS[place - 1] if isinstance(place, int) else place

    return {name: [*map(one, value)] if isinstance(value, list) else one(value) for name, value in call.items()}


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["whole", "turned", "empty", "failed"])
async def test_endorsed_cannot_steer_by_an_entry_beyond_the_bounds(tmp_path: Path, name: str) -> None:
    """Where the operator bounds no identifier, people are asked about each list, also about one that is empty."""
    model, box = Scripted(), moving()
    find = next(tool for tool in box.tools if tool.name == "mail__find")
    found = Result("mails", parse("PUBLIC~"), failed=_LISTS[name] is None, structured=_LISTS[name])
    listing = _Listing("mail__find", result=found, server="mail", shape=find.shape)
    others = [tool for tool in box.tools if tool.name != "mail__find"]
    tools: dict[str, object] = {tool: {} for tool in BOUNDED}
    async with running(tmp_path, config(tools=tools), parts=parts(listing, *others, model=model)) as owner:
        model.then([proposed("mail__find", {"_hold": True}, name="f")], "held")
        await owner.say("look")
        (held,) = bodies(await owner.events(), ItemHeld)
        given: dict[str, JsonValue] = {"id": {"$ref": held.ref, "entry": 1}, "folder": "bills"}
        model.then([proposed("mail__move", given, name="m")], "done")
        await owner.say("move it")
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert (asked.rules, asked.state) == (("endorsed_cannot_steer",), ApprovalState.PENDING)
        assert box.asked == []
