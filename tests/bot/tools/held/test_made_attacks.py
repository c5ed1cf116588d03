"""Attacks on objects that a call made: in each of them others may have chosen the object, so the call asks."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.mcp.tool import Ask
from tests.bot.kit import bang, parts, policy
from tests.bot.mailbox import LABELLED, Mailbox
from tests.bot.tools.held.test_entries import listed, numbered, ref_in, taken
from tests.bot.tools.held.test_made_entries import BOUNDED, DESCRIBED, Drafts, config, drafted, forward
from tests.harness import running

pytestmark = pytest.mark.anyio


class Box(Mailbox):
    """A mailbox with these descriptions."""

    def found(self, ask: Ask) -> dict[str, JsonValue] | None:
        """Return the structured result of a call, None for an error."""
        return {"id": ask.tool} if ask.tool == "draft" else super().found(ask)


def described(*, made: bool) -> dict[str, JsonValue]:
    """Return the descriptions, where a draft is perhaps no longer marked as made."""
    one: JsonValue = {"type": "string", "handle": "mail", "made": made}
    return {
        **DESCRIBED,
        "draft": {
            "description": "Write a draft.",
            "effect": "write",
            "arguments": {"text": {"type": "string", "role": "content"}},
            "output": {"type": "object", "fields": {"id": one}},
        },
    }


def configured(tools: Mapping[str, JsonValue]) -> str:
    """Return a configuration with these tools."""
    served = {"mail": {"command": sys.executable, "tools": dict(tools)}}
    return policy(blocks={"mcp_servers": served}, mcp_servers=LABELLED, tools=BOUNDED)


@pytest.mark.parametrize("made", [True, False])
async def test_a_mark_counts_as_long_as_it_is_in_force(tmp_path: Path, *, made: bool) -> None:
    """An operator takes it out when the server returns objects that were there: results from before have it."""
    before = Box(described=described(made=True))
    async with running(tmp_path, configured(described(made=True)), parts=parts(*before.tools)) as owner:
        ref = await drafted(owner)
    box = Box(described=described(made=made))
    async with running(tmp_path, configured(described(made=made)), parts=parts(*box.tools)) as owner:
        assert ("May `mail__forward` run" in await forward(owner, ref)) is not made
        assert box.asked == ([("forward", {"id": "draft", "to": "eve"})] if made else [])


async def test_a_copy_of_a_listed_mail_stays_of_others(tmp_path: Path) -> None:
    """Also a copy of the copy."""
    box = Drafts()
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        found = await listed(owner)
        first = ref_in(await owner.say(bang("mail__copy", id=taken(found))))
        second = ref_in(await owner.say(bang("mail__copy", id=taken(first))))
        assert "May `mail__forward` run" in await forward(owner, second)
        assert box.forwarded == []


async def test_a_field_that_was_heard_makes_each_later_use_ask(tmp_path: Path) -> None:
    box = Drafts()
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await drafted(owner)
        found = await listed(owner)
        returns: JsonValue = {"yes": {"type": "boolean"}}
        heard = bang("inspect", refs=[found], question="?", returns=returns, up_to="INTERNAL")
        assert "is held as" not in await owner.say(heard)
        assert "May `mail__forward` run" in await forward(owner, ref)
        assert box.forwarded == []


async def test_no_place_but_the_first_has_an_object(tmp_path: Path) -> None:
    """Not one that the session names, and not one that an answer gives."""
    box = Drafts()
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        ref = await drafted(owner)
        (owner.app.config.data_dir / "files" / "public" / "mail.md").write_text('{"place": 2, "yes": true}', "utf-8")
        text = ref_in(await owner.say(bang("read_file", path="public/mail.md", _hold=True)))
        answer: JsonValue = {"answer": await numbered(owner, text), "field": "place"}
        for entry in (2, answer):
            assert "is held as" in await owner.say(bang("mail__forward", id=taken(ref, entry), to="eve"))
        assert box.forwarded == []


async def test_no_draft_outlives_a_reset_or_is_of_an_untrusted_conversation(tmp_path: Path) -> None:
    box = Drafts()
    async with running(tmp_path, config(), parts=parts(*box.tools)) as owner:
        await owner.say(bang("admit", ref=await listed(owner)))
        assert (await owner.state()).taint.untrusted
        await owner.say(bang("mail__draft", text="x", _hold=True))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        ref = ref_in(await owner.say(f"/approve {asked.id}"))
        assert "May `mail__forward` run" in await forward(owner, ref)
        assert box.forwarded == []
        await owner.say("/reset")
        await owner.say("/reset confirm")
        assert "is held as" not in await forward(owner, ref)
        assert box.forwarded == []
