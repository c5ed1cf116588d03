"""Objects that a call made are entries of its held result: a conversation passes them on unasked, within a bound."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.mcp.tool import Ask
from bot.sessions.log.event_types import ItemHeld, ToolCall
from bot.tools.held.entries import NOT_THERE
from tests.bot.kit import bang, parts, policy
from tests.bot.mailbox import LABELLED, TOOLS, Mailbox, mail
from tests.bot.tools.held.moving import ONE
from tests.bot.tools.held.test_entries import left, listed, ref_in, taken
from tests.events import bodies
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

_MAKES: Final[dict[str, JsonValue]] = {
    "effect": "write",
    "output": {"type": "object", "fields": {"id": {"type": "string", "handle": "mail", "made": True}}},
}
_TO: Final[JsonValue] = {"type": "string", "role": "recipient"}
DESCRIBED: Final[dict[str, JsonValue]] = {
    **TOOLS,
    "draft": {
        "description": "Write a draft.",
        **_MAKES,
        "arguments": {"text": {"type": "string", "role": "content"}},
    },
    "copy": {"description": "Copy a mail.", **_MAKES, "arguments": {"id": ONE}},
    "forward": {"description": "Forward a mail.", "effect": "send", "arguments": {"id": ONE, "to": _TO}},
    "pin": {"description": "Pin a mail.", "effect": "write", "arguments": {"id": ONE}},
}
BOUNDED: Final[dict[str, object]] = {
    "mail__draft": {"untrusted_content": "allow"},
    "mail__copy": {"bounds": {"identifier": ["mail-*", "mail-unheard"]}},
    "mail__forward": {"bounds": {"identifier": ["mail-*", "mail-made-here"]}},
}


class Drafts(Mailbox):
    """A mailbox that makes drafts and copies, as far as it is not full."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__(mail("a", "one"), mail("b", "two"), described=DESCRIBED)
        self._full = full

    def found(self, ask: Ask) -> dict[str, JsonValue] | None:
        """Return the structured result of a call, None for an error."""
        if ask.tool in {"draft", "copy"}:
            return None if self._full else {"id": ask.tool}
        return super().found(ask)

    @property
    def forwarded(self) -> list[JsonValue]:
        """The mails that were forwarded."""
        return [given["id"] for tool, given in self.asked if tool == "forward"]


def config() -> str:
    """Return a configuration with that mailbox."""
    served = {"mail": {"command": sys.executable, "tools": dict(DESCRIBED)}}
    return policy(blocks={"mcp_servers": served}, mcp_servers=LABELLED, tools=BOUNDED)


async def drafted(owner: Person, text: JsonValue = "hello") -> str:
    """Have a draft written; return the id of its result."""
    return ref_in(await owner.say(bang("mail__draft", text=text, _hold=True)))


async def forward(owner: Person, ref: str) -> str:
    """Have what a result names forwarded to somebody that nobody listed."""
    return await owner.say(bang("mail__forward", id=taken(ref), to="eve"))


@pytest.mark.parametrize("others", [False, True])
async def test_what_a_call_made_is_passed_on_unasked(tmp_path: Path, *, others: bool) -> None:
    """Others may have written its words. They choose neither the object nor its recipient."""
    box = Drafts()
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await drafted(owner, {"$ref": await listed(owner)} if others else "hello")
        assert "is held as" in await forward(owner, ref)
        assert box.asked[-1] == ("forward", {"id": "draft", "to": "eve"})
        assert await owner.app.store.approvals.of(owner.sid) == ()
        assert not (await owner.state()).taint.untrusted
        # It is there or it is not.
        assert [one.millibits for one in bodies(await owner.events(), ToolCall)[-1].depended] == [1000]


async def test_where_nothing_was_made_the_conversation_sees_the_same(tmp_path: Path) -> None:
    box = Drafts(full=True)
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        assert "is held as" in await forward(owner, await drafted(owner))
        assert NOT_THERE in (await left(owner))[0]
        assert box.forwarded == []
        assert await owner.app.store.approvals.of(owner.sid) == ()


async def _found(owner: Person) -> str:
    return await listed(owner)


async def _copied_by_an_entry(owner: Person) -> str:
    """The bound of `copy` lets others choose which mail is copied."""
    return ref_in(await owner.say(bang("mail__copy", id=taken(await listed(owner)))))


async def _copied_by_a_handle(owner: Person) -> str:
    handle = (await owner.say(bang("mail__find"))).rpartition('"id": "')[2].partition('"')[0]
    return ref_in(await owner.say(bang("mail__copy", id=handle, _hold=True)))


async def _copied_by_a_text(owner: Person) -> str:
    """A person vouches for the value in that call alone."""
    (owner.app.config.data_dir / "files" / "public" / "mail.md").write_text("a", "utf-8")
    text = ref_in(await owner.say(bang("read_file", path="public/mail.md", _hold=True)))
    await owner.say(bang("mail__copy", id={"$ref": text}))
    (asked,) = await owner.app.store.approvals.of(owner.sid)
    return ref_in(await owner.say(f"/approve {asked.id}"))


async def _drafted_after_a_value(owner: Person) -> str:
    await owner.say(bang("mail__find"))
    return await drafted(owner)


@pytest.mark.parametrize(
    "way", [_found, _copied_by_an_entry, _copied_by_a_handle, _copied_by_a_text, _drafted_after_a_value]
)
async def test_what_others_may_have_chosen_asks(tmp_path: Path, way: Callable[[Person], Awaitable[str]]) -> None:
    box = Drafts()
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        assert "May `mail__forward` run" in await forward(owner, await way(owner))
        assert box.forwarded == []


@pytest.mark.parametrize(
    "way, made",
    [(drafted, True), (_copied_by_an_entry, False), (_copied_by_a_handle, False), (_copied_by_a_text, False)],
)
async def test_a_conversation_made_what_it_fixed_itself(
    tmp_path: Path, way: Callable[[Person], Awaitable[str]], *, made: bool
) -> None:
    box = Drafts()
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await way(owner)
        (held,) = [one for one in bodies(await owner.events(), ItemHeld) if one.ref == ref]
        assert [(one.kind, one.made) for one in held.listed] == [("mail", made)]


@pytest.mark.parametrize("tool", ["pin", "delete"])
async def test_a_tool_without_that_bound_asks(tmp_path: Path, tool: str) -> None:
    """Its operator did not say that it may be given whatever was made, with the words of others in it."""
    box = Drafts()
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await drafted(owner)
        assert f"May `mail__{tool}` run" in await owner.say(bang(f"mail__{tool}", id=taken(ref)))
        assert [one for one, _ in box.asked] == ["draft"]
