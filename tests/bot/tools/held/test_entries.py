"""Entries of held lists: a call takes one by its place, unheard, and unasked within the bound of its role."""

import math
import re
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.gate.calls import BITS
from bot.gate.references import REFERS
from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import HeldIdentifiers, ItemHeld, ToolCall, ToolResult
from bot.sessions.log.events import DeferredResult
from bot.tools.base import RefusedCallError
from bot.tools.held.entries import (
    FULL,
    HOLD_ONE,
    NO_LIST,
    NO_NUMBER,
    NO_PLACE,
    NOT_HERE,
    NOT_THERE,
    OTHER_SERVER,
    SHOWN,
    WHOLE,
    entry_in,
    identifiers,
)
from bot.tools.held.skeletons import Hidden, Named, ObjectField, ObjectFields, ServerWritten, Several
from bot.tools.references import MALFORMED, UNKNOWN
from policy.labels import PUBLIC
from tests.bot.kit import bang, parts
from tests.bot.mailbox import mail
from tests.bot.tools.held.moving import config, moving
from tests.events import bodies
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

MAILS: Final = (mail("a", "one"), mail("b", '{"place": 2, "yes": true}'))


def ref_in(text: str) -> str:
    """Return the id of the last held item that a text names."""
    return re.findall(r"held-[a-z0-9]{16}", text)[-1]


async def listed(owner: Person) -> str:
    """Have the mails held; return the id."""
    return ref_in(await owner.say(bang("mail__find", _hold=True)))


async def numbered(owner: Person, ref: str) -> str:
    """Have a number of held mails answered by their last line, and the answer held; return its id."""
    returns: JsonValue = {"place": {"type": "number", "min": 0, "max": 9}, "yes": {"type": "boolean"}}
    return ref_in(await owner.say(bang("inspect", refs=[ref], question="?", returns=returns, _hold=True)))


def taken(ref: str, entry: JsonValue = 1) -> dict[str, JsonValue]:
    """Return the reference to an entry."""
    return {"$ref": ref, "entry": entry}


async def left(owner: Person) -> tuple[str, str]:
    """Return the text that the session held last, and its label."""
    held = [event for event in await owner.events() if isinstance(event.body, ItemHeld)]
    return bodies(held, ItemHeld)[-1].text, str(held[-1].label)


@pytest.mark.parametrize("entry, moved, tells", [(1, ["a"], "deleted"), (2, ["b"], "deleted"), (3, [], NOT_THERE)])
async def test_a_call_takes_the_entry_at_a_place_if_it_is_there(
    tmp_path: Path, entry: int, moved: list[str], tells: str
) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        # No value but the identifier depends on the list, so the folder needs no bound.
        shown = await owner.say(bang("mail__move", id=taken(ref, entry), folder="bills"))
        assert [given for tool, given in box.asked if tool == "move"] == [
            {"id": one, "folder": "bills"} for one in moved
        ]
        assert await owner.app.store.approvals.of(owner.sid) == ()
        assert f"The result of this call is held as `{ref_in(shown)}`" in shown
        told, label = await left(owner)
        assert (tells in told, label) == (True, "INTERNAL~")
        assert not (await owner.state()).taint.untrusted
        assert all(not one.endorsed for one in bodies(await owner.events(), ToolResult))
        # None, or one of three.
        assert [one.millibits for one in bodies(await owner.events(), ToolCall)[-1].depended] == [2000]


async def test_entries_stand_in_lists_of_identifiers_too(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        await owner.say(bang("mail__tag", ids=[taken(ref, 2), taken(ref)], tag="bill"))
        assert box.asked[-1] == ("tag", {"ids": ["b", "a"], "tag": "bill"})
        (depended,) = bodies(await owner.events(), ToolCall)[-1].depended
        assert depended.millibits == 4000


async def test_a_held_number_gives_the_place(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        (owner.app.config.data_dir / "files" / "public" / "mail.md").write_text('{"place": 2, "yes": true}', "utf-8")
        text = ref_in(await owner.say(bang("read_file", path="public/mail.md", _hold=True)))
        place = await numbered(owner, text)
        yes: JsonValue = {"answer": place, "field": "yes"}
        assert f"{NO_NUMBER}`place`" in await owner.say(bang("mail__move", id=taken(ref, yes), folder="x"))
        await owner.say(bang("mail__move", id=taken(ref, {"answer": place, "field": "place"}), folder="bills"))
        assert box.asked[-1] == ("move", {"id": "b", "folder": "bills"})
        depended = bodies(await owner.events(), ToolCall)[-1].depended
        assert [one.millibits for one in depended] == [math.ceil(1000 * math.log2(21)), 2000]
        failed = await numbered(owner, ref_in(await owner.say(bang("mail__read", id="none", _hold=True))))
        await owner.say(bang("mail__move", id=taken(ref, {"answer": failed, "field": "place"}), folder="x"))
        assert NOT_THERE in (await left(owner))[0]
        assert await owner.app.store.approvals.of(owner.sid) == ()
        assert [tool for tool, _ in box.asked].count("move") == 1


@pytest.mark.parametrize("mails, made", [(MAILS, 1), ((), 0)])
async def test_without_a_bound_people_are_asked_and_see_the_identifier(
    tmp_path: Path, mails: tuple[dict[str, JsonValue], ...], made: int
) -> None:
    """The author of a list chooses the identifier. The operator did not say that this does no harm."""
    box = moving(*mails)
    async with running(tmp_path, config(tools={}), parts=parts(*box.tools)) as owner:
        shown = await owner.say(bang("mail__move", id=taken(await listed(owner)), folder="bills"))
        assert "May `mail__move` run" in shown
        assert ('identifier `"a"`' in shown) is bool(made)
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert asked.rules == ("endorsed_cannot_steer",)
        await owner.say(f"/approve {asked.id}")
        await owner.settled()
        assert [tool for tool, _ in box.asked].count("move") == made
        states = {one.state for one in await owner.app.store.approvals.of(owner.sid)}
        assert states.isdisjoint({ApprovalState.PENDING, ApprovalState.APPROVED})


async def test_an_argument_without_a_role_has_no_bound(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        assert "May `mail__delete` run" in await owner.say(bang("mail__delete", id=taken(await listed(owner))))
        assert [tool for tool, _ in box.asked] == ["find"]


async def test_a_text_that_goes_along_asks_as_ever(tmp_path: Path) -> None:
    """The bound of the identifier says nothing of texts that anybody may have written."""
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        await owner.say(bang("mail__move", id=taken(ref), folder="bills", note={"$ref": ref}))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert asked.rules == ("untrusted_cannot_command",)
        assert [tool for tool, _ in box.asked] == ["find"]


async def test_a_session_that_heard_a_skeleton_asks_for_its_other_values(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        await owner.say(bang("mail__find"))
        assert "May `mail__move` run" in await owner.say(bang("mail__move", id=taken(ref), folder="bills"))


async def test_what_is_read_afterwards_may_tell_which_entry_it_was(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        await owner.say(bang("mail__move", id=taken(ref), folder="bills"))
        await owner.say(bang("mail__move", id=taken(ref, 2), folder="bills"))
        assert [tool for tool, _ in box.asked].count("move") == 2
        await owner.say(bang("read_file", path="public/welcome.md", _hold=False))
        if not (await owner.state()).taint.untrusted:
            shown = await owner.say(bang("mail__move", id=taken(ref), folder="work"))
            assert "- `which entry of a held list a call took`" in shown
        assert [tool for tool, _ in box.asked].count("move") == 2


async def test_an_entry_is_read_unheard(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(tools={}), parts=parts(*box.tools)) as owner:
        shown = await owner.say(bang("mail__read", id=taken(await listed(owner), 2)))
        assert "is held as" in shown
        assert box.asked[-1] == ("read", {"id": "b"})
        assert (await left(owner))[1] == "INTERNAL~"
        assert not (await owner.state()).taint.untrusted


async def test_what_names_no_entry_is_refused_with_the_next_step(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        file = ref_in(await owner.say(bang("read_file", path="public/welcome.md", _hold=True)))
        one = taken(ref)
        places: list[JsonValue] = [0, -1, True, "1", 1.5, 1001, None, [1]]
        wrong: list[tuple[dict[str, JsonValue], str]] = [
            *(({"id": taken(ref, place)}, NO_PLACE) for place in places),
            ({"id": taken(ref, {"answer": file})}, NO_PLACE),
            ({"id": taken(ref, {"answer": file, "field": "place", "more": 1})}, NO_PLACE),
            ({"id": taken(ref, {"answer": file, "field": "place"})}, "`entry` needs the id of a held answer"),
            ({"id": {**one, "beside": 1}}, MALFORMED),
            ({"id": taken(file)}, NO_LIST),
            ({"id": taken("held-0123456789abcdef")}, UNKNOWN),
            ({"id": one, "folder": one}, NOT_HERE),
            ({"id": one, "note": one}, NOT_HERE),
            ({"id": [one]}, NOT_HERE),
            ({"id": one, "_hold": False}, REFERS),
        ]
        for given, why in wrong:
            assert why in await owner.say(bang("mail__move", **{"folder": "bills", **given})), given
        assert NOT_HERE in await owner.say(bang("mail__tag", ids=one, tag="x"))
        assert NOT_HERE in await owner.say(bang("mail__move", **one))
        assert NOT_HERE in await owner.say(bang("message", channel="console", recipient="guest", text=one))
        assert [tool for tool, _ in box.asked] == ["find"]
        await owner.say("/reset confirm")
        assert UNKNOWN in await owner.say(bang("mail__move", id=one, folder="bills"))


async def test_a_list_of_another_server_gives_no_entry(tmp_path: Path) -> None:
    box, other = moving(*MAILS), moving(*MAILS)
    other.server = "post"
    async with running(tmp_path, config(), parts=parts(*box.tools, *other.tools)) as owner:
        ref = await listed(owner)
        shown = await owner.say(bang("post__move", id=taken(ref), folder="bills"))
        assert OTHER_SERVER.format(listed="mail", server="post") in shown
        assert HOLD_ONE.format(server="post", kind="mail") in shown
        assert other.asked == []


@pytest.mark.parametrize("mails", [MAILS, ()])
async def test_a_whole_list_is_no_identifier(tmp_path: Path, mails: tuple[dict[str, JsonValue], ...]) -> None:
    """No person is asked to vouch for it as one, and the refusal is the same for a list that failed."""
    box = moving(*mails)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref: JsonValue = {"$ref": await listed(owner)}
        assert WHOLE in await owner.say(bang("mail__move", id=ref, folder="bills"))
        assert WHOLE in await owner.say(bang("mail__tag", ids=[ref], tag="x"))
        assert await owner.app.store.approvals.of(owner.sid) == ()
        assert [tool for tool, _ in box.asked] == ["find"]


async def test_a_list_shown_by_handles_asks_for_one_of_them(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        shown = ref_in((await owner.say(bang("mail__find"))).partition("These parts")[0])
        wholes: list[JsonValue] = [taken(shown), {"$ref": shown}]
        for whole in wholes:
            assert SHOWN in await owner.say(bang("mail__move", id=whole, folder="bills"))
        assert await owner.app.store.approvals.of(owner.sid) == ()


def test_a_list_of_another_kind_names_both_kinds() -> None:
    held = DeferredResult("held-a", "", PUBLIC, PUBLIC, server="mail", listed=(HeldIdentifiers("folder", 2),))
    with pytest.raises(RefusedCallError, match="lists `folder`, and this argument takes `mail`"):
        entry_in(held, 1, {}, server="mail", kind="mail")


async def test_an_entry_beyond_the_limit_of_bits_is_refused_openly(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(limits={"endorsed_bits": 5}), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        call = bang("mail__move", id=taken(ref, 3), folder="bills")
        # One that is not there takes as much room.
        shown = await owner.say(f"{call}\n{call}\n{call}")
        assert FULL in shown
        assert shown.count("is held as") == 2


async def test_a_simulated_call_says_that_it_depends_on_the_room_for_its_bits(tmp_path: Path) -> None:
    """The real call is refused by the calls before it, so the verdict alone would promise too much."""
    box = moving(*MAILS)
    async with running(tmp_path, config(limits={"endorsed_bits": 1}), parts=parts(*box.tools)) as owner:
        args: dict[str, JsonValue] = {"id": taken(await listed(owner)), "folder": "bills"}
        assert BITS in await owner.say(bang("simulate_tool_call", tool_name="mail__move", args=args))
        assert FULL in await owner.say(bang("mail__move", **args))
        args["id"] = "a"
        assert BITS not in await owner.say(bang("simulate_tool_call", tool_name="mail__move", args=args))


async def test_a_simulated_call_tells_nothing_of_its_entry(tmp_path: Path) -> None:
    told = list[str]()
    for name, mails in (("some", MAILS), ("none", ())):
        folder = tmp_path / name
        folder.mkdir()
        async with running(folder, config(), parts=parts(*moving(*mails).tools)) as owner:
            args: dict[str, JsonValue] = {"id": taken(await listed(owner)), "folder": "bills"}
            shown = await owner.say(bang("simulate_tool_call", tool_name="mail__move", args=args))
            assert '"verdict": "ALLOW"' in shown
            told.append(re.sub(r"held-[a-z0-9]{16}", "id", shown))
    assert told[0] == told[1]


def test_identifiers_are_listed_by_their_kinds_in_the_order_of_the_result() -> None:
    entry = ObjectFields(
        (ObjectField("id", Named("mail")), ObjectField("in", Named("folder")), ObjectField("text", Hidden()))
    )
    fields = (ObjectField("mails", Several(entry, 0, 2)), ObjectField("last", Named("mail"), optional=True))
    shape = ObjectFields((*fields, ObjectField("status", ServerWritten())))
    one: JsonValue = {"id": "a", "in": 1, "text": "x"}
    other: JsonValue = {"id": "b", "in": 1, "text": "y"}
    found = identifiers(shape, {"mails": [one, other], "status": "ok", "last": "c"}, str)
    assert found == (HeldIdentifiers("mail", 3, ('"a"', '"b"', '"c"')), HeldIdentifiers("folder", 2, ("1", "1")))
    several: JsonValue = {"mails": [one, one, one], "status": "ok"}
    partly: JsonValue = {"mails": [one, {"id": "b"}], "status": "ok"}
    misfits: list[JsonValue] = [several, partly, None, "x"]
    for misfit in misfits:
        assert identifiers(shape, misfit, str) == (HeldIdentifiers("mail", 3), HeldIdentifiers("folder", 2))
    assert identifiers(Hidden(), "words", str) == ()


def test_what_a_call_made_is_so_called_if_the_session_fixed_that_call() -> None:
    made = ObjectFields((ObjectField("id", Named("mail", made=True)), ObjectField("in", Named("folder"))))
    shape, value = ObjectFields((ObjectField("new", made),)), dict[str, JsonValue]({"new": {"id": "a", "in": "b"}})
    known = HeldIdentifiers("folder", 1, ('"b"',))
    assert identifiers(shape, value, str, own=True) == (HeldIdentifiers("mail", 1, ('"a"',), made=True), known)
    assert identifiers(shape, value, str) == (HeldIdentifiers("mail", 1, ('"a"',)), known)
    assert identifiers(shape, None, str, own=True)[0] == HeldIdentifiers("mail", 1, made=True)


async def test_an_untrusted_session_asks_as_ever_and_is_charged_nothing(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        await owner.say("/taint raise INTERNAL~")
        await owner.say(bang("mail__move", id=taken(ref), folder="bills"))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert asked.rules == ("untrusted_cannot_command",)
        await owner.say(f"/approve {asked.id}")
        await owner.settled()
        assert box.asked[-1] == ("move", {"id": "a", "folder": "bills"})
        assert all(one.depended == () for one in bodies(await owner.events(), ToolCall))


async def test_people_who_are_asked_see_the_answer_that_gives_the_place(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(tools={}), parts=parts(*box.tools)) as owner:
        ref = await listed(owner)
        (owner.app.config.data_dir / "files" / "public" / "mail.md").write_text('{"place": 2, "yes": true}', "utf-8")
        place = await numbered(owner, ref_in(await owner.say(bang("read_file", path="public/mail.md", _hold=True))))
        shown = await owner.say(bang("mail__move", id=taken(ref, {"answer": place, "field": "place"}), folder="bills"))
        assert 'identifier `"b"`' in shown
        assert '"holds": "b"' in shown
        assert place in shown


async def test_the_numbers_of_later_handles_tell_nothing_of_a_held_list(tmp_path: Path) -> None:
    box = moving(*MAILS)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        await listed(owner)
        assert '"id": "mail-1-' in await owner.say(bang("mail__find"))
