"""`message`: to places known by configuration, at the label of the session, without changing the route."""

from pathlib import Path

import pytest

from bot.access import principals
from bot.access.recipients import UNKNOWN_THERE
from bot.tools.base import RefusedCallError
from bot.tools.message import Message, MessageArguments
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bot.kit import (
    CONFIDENTIAL,
    GUEST,
    HOME,
    INTERNAL,
    TOP,
    bang,
    document,
    eventually,
    note,
    policy,
    results,
    tool_call,
    tool_context,
)
from tests.harness import running
from tests.people import principal

pytestmark = pytest.mark.anyio

CARD = "4111 1111 1111 1111"


def to(recipient: str, text: str = "hi", channel: str = "console") -> MessageArguments:
    return MessageArguments(channel=channel, recipient=recipient, text=text)


def test_it_declares_where_it_leads_and_what_it_says() -> None:
    declared = Message().declare(to("guest"), tool_context())
    assert (declared.clearance, declared.consequential, declared.says) == (PUBLIC, True, (GUEST, "hi"))
    assert declared.result == PUBLIC


def test_a_word_to_ones_own_cleared_address_is_not_consequential() -> None:
    assert not Message().declare(to("owner"), tool_context(TOP)).consequential
    narrow = document(recipients={"owner": {"channel": "console", "chat": "owner", "clearance": "INTERNAL"}})
    assert Message().declare(to("owner"), tool_context(CONFIDENTIAL, document=narrow)).consequential


PEOPLE = {
    "owner": principal("console:owner", "board:7", "board:T1:7"),
    "ann": principal("board:ann", role="member", clearance="INTERNAL"),
}
BOARD = {
    "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    "board": {"classification": "CONFIDENTIAL"},
}


def test_a_word_to_oneself_in_another_private_chat_is_not_consequential() -> None:
    known = document(principals=PEOPLE, channels=BOARD, recipients={})
    elsewhere = Address("console", "elsewhere")
    background = Address("session", "s1", "owner", "run")
    for home in (HOME, elsewhere, background):
        there = tool_context(CONFIDENTIAL, document=known, home=home)
        declared = Message().declare(to("owner"), there)
        assert (declared.clearance, declared.consequential) == (TOP, False)
    telegram = {"principals": {**PEOPLE, "owner": {**PEOPLE["owner"], "accounts": ["console:owner", "board:7"]}}}
    two = document(**telegram, channels=BOARD, recipients={})
    declared = Message().declare(to("owner", channel="board"), tool_context(CONFIDENTIAL, document=two))
    assert (declared.clearance, declared.consequential) == (CONFIDENTIAL, False)
    assert Message().declare(to("owner", channel="board"), tool_context(TOP, document=two)).consequential
    ann = tool_context(document=known, principal="ann", asker="ann", ceiling=INTERNAL)
    assert not Message().declare(to("ann", channel="board"), ann).consequential
    above = tool_context(CONFIDENTIAL, document=known, principal="ann", asker="ann", ceiling=INTERNAL)
    assert Message().declare(to("ann", channel="board"), above).consequential
    assert Message().declare(to("owner", channel="console"), ann).consequential


def test_an_account_that_is_anothers_by_now_is_not_ones_own() -> None:
    """Also where the session began: whoever has that account now would hear it."""
    now = {
        "owner": {**PEOPLE["owner"], "accounts": ["board:7"]},
        "ann": {**PEOPLE["ann"], "accounts": ["console:owner"]},
    }
    known = document(principals=now, channels=BOARD)
    assert Message().declare(to("owner"), tool_context(document=known, home=HOME)).consequential


def test_in_a_shared_chat_the_askers_private_chat_is_another_place() -> None:
    chats = {"team": {"channel": "board", "chat": "team", "classification": "INTERNAL"}}
    known = document(principals=PEOPLE, channels=BOARD, chats=chats)
    team = Address("board", "team")
    there = tool_context(document=known, principal=principals.of_chat(team), asker="ann", ceiling=INTERNAL, home=team)
    assert Message().declare(to("ann", channel="board"), there).consequential
    assert not Message().declare(to("team", channel="board"), there).consequential
    background = tool_context(
        document=known,
        principal=principals.of_chat(team),
        asker="ann",
        ceiling=INTERNAL,
        home=Address("session", "s1", principals.of_chat(team), "run"),
    )
    assert Message().declare(to("team", channel="board"), background).consequential


@pytest.mark.parametrize(
    "recipient, channel", [("gust", "console"), ("guest", "telegram"), ("console:guest", "console"), ("", "console")]
)
def test_an_unknown_recipient_is_refused_by_one_constant(recipient: str, channel: str) -> None:
    with pytest.raises(RefusedCallError) as refusal:
        Message().declare(to(recipient, channel=channel), tool_context())
    assert str(refusal.value) == UNKNOWN_THERE


async def test_its_key_is_the_calls_so_that_a_repetition_is_the_same_message() -> None:
    first = await Message().run(to("guest"), *tool_call(INTERNAL))
    assert first == await Message().run(to("guest"), *tool_call(INTERNAL))
    (delivery,) = first.deliver
    assert (delivery.key, delivery.address, delivery.label) == ("s1/1/c1", str(GUEST), INTERNAL)


async def test_a_message_arrives_and_the_answer_stays_at_home(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        shown = await owner.say(note("guest", "hello"))
        assert "→ guest: hello" in shown
        assert "accepted for guest" in shown
        sent = {(entry.address, entry.state) for entry in await owner.app.store.outbox.deliveries(owner.sid)}
        assert sent == {(str(GUEST), "sent"), (str(HOME), "sent")}


async def test_redaction_of_a_message_is_real(tmp_path: Path) -> None:
    rules = [{"id": "no-cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "REDACT"}]
    async with running(tmp_path, policy(rules=rules)) as owner:
        await owner.say(note("guest", f"pay {CARD}"))
        assert "→ guest: pay [redacted: payment-card]" in owner.shown
        assert CARD not in owner.shown


async def test_no_write_down_by_message(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        shown = await owner.say(note("guest", "the plan"))
        assert "→ guest" not in owner.shown
        assert "no_write_down" in shown
        assert results(await owner.events())[-1] == ("message", "denied")


async def test_a_place_this_process_does_not_serve_waits_for_one_that_does(tmp_path: Path) -> None:
    config = policy(
        channels={
            "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
            "pager": {"classification": "PUBLIC"},
        },
        recipients={"duty": {"channel": "pager", "chat": "7", "clearance": "PUBLIC"}},
    )
    async with running(tmp_path, config) as owner:
        await owner.say(bang("message", channel="pager", recipient="duty", text="wake up"), wait=False)

        async def accepted() -> bool:
            return "accepted for duty" in owner.shown

        await eventually(accepted)
        waiting = [entry for entry in await owner.app.store.outbox.deliveries(owner.sid) if entry.kind == "message"]
        assert [(entry.address, entry.state) for entry in waiting] == [("pager::7:", "pending")]
