"""Copies of a question: every place where it stands tells what became of it, as far as its readers may know."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.delivery.question_updates import GONE, LONGEST, outcome
from bot.sessions.approvals import FOR_EVER, Approval, ApprovalQuestion, ApprovalState
from bot.sessions.consents.grants import Grant
from bot.sessions.deliveries import DeliveryState
from bot.store.schema import session_keys
from channels.messages import Address, Inbound, Outbound
from channels.port import AmbiguousSendError, ChannelError, GoneError
from policy.labels import PUBLIC
from tests.bot.board import Board
from tests.bot.kit import bang, policy
from tests.channels.contract import until
from tests.harness import Person, running
from tests.people import principal
from tests.store.world import earlier

pytestmark = pytest.mark.anyio

ASK = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}


def person(role: str, name: str) -> dict[str, JsonValue]:
    return principal(f"board:{name}", role=role, clearance="CONFIDENTIAL")


PEOPLE = {
    "owner": principal("console:owner"),
    "ann": person("member", "ann"),
    "boss": person("approver", "boss"),
    "vice": person("approver", "vice"),
}
CHANNELS = {"board": {"classification": "CONFIDENTIAL", "overshoot": "allow"}, "console": {"classification": "top"}}
CHATS = {"all": {"channel": "board", "chat": "all", "classification": "INTERNAL"}}
CONFIG = policy(principals=PEOPLE, channels=CHANNELS, chats=CHATS, recipients={}, rules=[ASK])
TIME = bang("current_time")


def at_board(owner: Person, name: str) -> Person:
    return Person(owner.app, owner.output, Address("board", name), f"board:{name}")


async def asked(ann: Person, text: str = TIME) -> str:
    """Ask for something that waits for an approval; return the question's id."""
    await ann.say(text)
    (name,) = {one.asked_in for one in await ann.app.store.approvals.of(ann.sid) if one.state is ApprovalState.PENDING}
    return name


def questions(board: Board) -> dict[str, Outbound]:
    """Return the first thing that stands in each chat."""
    return {chat: board.at(chat)[0] for chat in ("ann", "boss", "vice")}


@pytest.mark.parametrize("verb, word", [("approve", "approved"), ("deny", "refused")])
async def test_every_copy_of_an_answered_question_is_edited(tmp_path: Path, verb: str, word: str) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        ann = at_board(owner, "ann")
        name = await asked(ann)
        # Ann asked, and another person has to answer.
        pressed = {chat: [button.label for button in copy.buttons] for chat, copy in questions(board).items()}
        assert pressed == {"ann": ["Withdraw"], "boss": ["Approve", "Deny"], "vice": ["Approve", "Deny"]}
        # What is typed is another thing on each platform.
        assert not any("/approve" in copy.text for copy in questions(board).values())
        await at_board(owner, "boss").say(f"/{verb} {name}", wait=False)
        # The worker, which the answer wakes, may be the one that edits.
        await until(lambda: board.edits == 3)
        for copy in questions(board).values():
            assert copy.buttons == ()
            assert copy.text.startswith("May `current_time` run")
            assert "/approve" not in copy.text
            assert copy.text.endswith(f"\n\n{name}: {word} by boss")
        await ann.settled()
        assert board.edits == 3
        assert await owner.app.store.question_copies.copies() == ()


async def test_what_is_not_asked_any_more_is_edited_however_it_ended(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        ann = at_board(owner, "ann")
        for ends in ("/stop", "/reset confirm", ApprovalState.EXPIRED):
            board.stands.clear()
            name = await asked(ann)
            if isinstance(ends, ApprovalState):
                await owner.app.store.approvals.resolve(ann.sid, (name,), ends, actor="clock", audit=())
                line = f"{name}: not answered in time"
            else:
                await ann.say(ends)
                line = f"{name}: cancelled by ann"
            await owner.app.question_updates.sweep()
            await until(lambda line=line: all(copy.text.endswith(line) for copy in questions(board).values()))
            await ann.settled()


async def test_a_question_of_which_a_part_is_answered_stands(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        ann, boss = at_board(owner, "ann"), at_board(owner, "boss")
        name = await asked(ann, f"{TIME}\n{TIME}")
        await boss.say(f"/approve {name}-1", wait=False)
        await owner.app.question_updates.sweep()
        assert board.edits == 0
        await at_board(owner, "vice").say(f"/deny {name}-2", wait=False)
        await until(lambda: questions(board)["ann"].text.endswith(f"{name}: 1 approved by boss, 1 refused by vice"))


async def test_a_shared_chat_is_not_told_who_answered(tmp_path: Path) -> None:
    board = Board(frozenset({"board:ann", "board:boss"}))
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        everybody = Person(owner.app, owner.output, Address("board", "all"), "board:ann")
        inbound = Inbound(everybody.address, everybody.account, TIME, "d1", private=False)
        await owner.app.router.receive(inbound)
        await everybody.settled()
        (name,) = {one.asked_in for one in await owner.app.store.approvals.of(everybody.sid)}
        await at_board(owner, "boss").say(f"/approve {name}", wait=False)
        await until(lambda: board.at("all")[0].text.endswith(f"{name}: approved"))
        await until(lambda: board.at("boss")[0].text.endswith(f"{name}: approved by boss"))
        # A button that is left, pressed: whoever pressed it is told, and nobody else.
        press = replace(inbound, account="board:vice", text=f"/deny {name}", dedupe="d2")
        await owner.app.router.receive(press)
        (told,) = [one for one in board.stands.values() if one.address.recipient == "vice"]
        assert "nothing" in told.text
        await until(lambda: board.edits == 3)
        assert told.address.chat == "all"


async def test_a_question_that_waits_again_keeps_its_buttons(tmp_path: Path) -> None:
    """A server took over that does not know the answer: neither an edit that waits is made, nor one put there now."""
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        ann = at_board(owner, "ann")
        name = await asked(ann)
    async with running(tmp_path, CONFIG, serve=False, channels=[board]) as owner:
        store, updates, outbox = owner.app.store, owner.app.question_updates, owner.app.outbox
        unanswered = await earlier(store, session_keys(ann.sid).approvals)

        async def refuse() -> None:
            await store.approvals.resolve(ann.sid, (name,), ApprovalState.DENIED, actor="boss", audit=())

        said = await store.outbox.deliveries(ann.sid)
        await refuse()
        late = (await store.question_copies.copies())[0]
        await unanswered()
        await updates._close(late)  # pyright: ignore[reportPrivateUsage] - it looked before the server took over
        assert await store.outbox.deliveries(ann.sid) == said
        await refuse()
        await updates.sweep()
        await unanswered()
        await outbox.collect(ann.sid)
        assert board.edits == 0
        assert all(copy.buttons for copy in questions(board).values())
        # The loss is found: the question is asked again, and its new copies are edited as the first would have been.
        await store.losses.witness(ann.sid, audit=(99, "h" * 43))
        await outbox.collect(ann.sid)
        assert board.at("boss")[1].buttons
        await refuse()
        await updates.sweep()
        await outbox.collect(ann.sid)
        assert board.at("boss")[1].buttons == ()
        assert board.at("boss")[1].text.endswith(f"{name}: refused by boss")


async def test_crash_heals_a_copy_is_edited_by_another_process(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        ann = at_board(owner, "ann")
        name = await asked(ann)
    async with running(tmp_path, CONFIG, serve=False) as owner:
        await owner.app.store.approvals.resolve(ann.sid, (name,), ApprovalState.DENIED, actor="boss", audit=())
        # A process without that channel cannot tell who reads there, and leaves it.
        await owner.app.question_updates.sweep()
        assert len(await owner.app.store.question_copies.copies()) == 3
    assert board.edits == 0
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        await until(lambda: board.edits == 3)
        assert {copy.text.rpartition("\n")[2] for copy in questions(board).values()} == {f"{name}: refused by boss"}
        await at_board(owner, "ann").settled()


@pytest.mark.parametrize(
    "fails, edits",
    [
        ([GoneError("gone")], 1),
        ([ChannelError("no"), ChannelError("no")], 2),
        ([AmbiguousSendError("?"), AmbiguousSendError("?")], 2),
    ],
)
async def test_a_copy_that_cannot_be_edited_is_let_go(tmp_path: Path, fails: list[ChannelError], edits: int) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        ann = at_board(owner, "ann")
        name = await asked(ann)
        before = len(board.stands)
        board.fails = {"boss": [*fails]}
        await at_board(owner, "vice").say(f"/deny {name}", wait=False)
        await until(lambda: board.edits == edits + 2)
        await ann.settled()
        assert [copy.text.endswith(f"{name}: refused by vice") for copy in questions(board).values()].count(False) == 1
        assert len(board.stands) == before + 2  # what vice was told, and the answer
        assert await owner.app.store.outbox.dead() == ()
        kept = [one for one in await owner.app.store.outbox.deliveries(ann.sid) if one.replaces]
        assert sorted(one.state for one in kept) == [DeliveryState.CANCELLED, DeliveryState.SENT, DeliveryState.SENT]


async def test_an_edit_in_doubt_is_made_again_and_unmarked(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        store, ann = owner.app.store, at_board(owner, "ann")
        async with running(tmp_path, CONFIG, channels=[board]) as other:
            name = await asked(at_board(other, "ann"))
        await store.approvals.resolve(ann.sid, (name,), ApprovalState.DENIED, actor="boss", audit=())
        await owner.app.question_updates.sweep()
        left = await store.outbox.take(ann.sid, "dead", ("board",))
        for one in left:
            await store.outbox.settle(one, "dead", DeliveryState.AMBIGUOUS)
        doubtful = [replace(one, state=DeliveryState.AMBIGUOUS) for one in left]
        await owner.app.outbox.deliver(tuple(doubtful))
        assert {copy.text.endswith("refused by boss") for copy in questions(board).values()} == {True}
        assert not any(copy.repeated for copy in questions(board).values())
        assert await store.outbox.dead() == ()


async def test_no_write_down_a_copy_is_not_edited_where_it_may_not_be_read_any_more(tmp_path: Path) -> None:
    board = Board(frozenset({"board:ann", "board:boss"}))
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        everybody = Person(owner.app, owner.output, Address("board", "all"), "board:ann")
        for number, text in enumerate(("hello", "/taint raise INTERNAL", TIME)):
            await owner.app.router.receive(
                Inbound(everybody.address, everybody.account, text, f"d{number}", private=False)
            )
            await everybody.settled()
        (name,) = {one.asked_in for one in await owner.app.store.approvals.of(everybody.sid)}
        before = board.at("all")
        board.everybody |= {"board:stranger"}
        await at_board(owner, "boss").say(f"/deny {name}", wait=False)
        await until(lambda: board.at("boss")[0].text.endswith("refused by boss"))
        await everybody.settled()
        assert [one for one in board.at("all") if one.text.endswith("refused")] == []
        assert before[0] in board.at("all")


async def test_a_long_question_becomes_its_line_alone(tmp_path: Path) -> None:
    board = Board()
    rule = {**ASK, "tools": ["write_file"]}
    config = policy(principals=PEOPLE, channels=CHANNELS, recipients={}, rules=[rule])
    async with running(tmp_path, config, channels=[board]) as owner:
        name = await asked(at_board(owner, "ann"), bang("write_file", path="public/new.md", text="x" * LONGEST))
        await at_board(owner, "boss").say(f"/deny {name}", wait=False)
        await until(lambda: questions(board)["vice"].text == f"{name}: refused by boss")


async def test_nothing_is_said_where_nothing_can_be_edited(tmp_path: Path) -> None:
    config = policy(principals=PEOPLE, channels=CHANNELS, rules=[ASK])
    async with running(tmp_path, config) as owner:
        await owner.say(TIME)
        assert await owner.app.store.question_copies.copies() == ()


async def test_a_copy_of_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        async with running(tmp_path, CONFIG, channels=[board]) as other:
            await asked(at_board(other, "ann"))
        store, sid = owner.app.store, at_board(owner, "ann").sid
        assert await store.question_copies.copies() == ()
        first, *_ = await store.outbox.deliveries(sid)
        await owner.app.store.sessions.reset(sid, op="o1", actor="ann", audit=())
        await owner.app.store.sessions.reset(sid, op="o2", actor="ann", audit=())
        assert len(await store.question_copies.copies(sid)) == 3
        assert await store.question_copies.copies("another") == ()
        assert first.receipt
        await owner.app.question_updates.close(sid)
        assert {copy.text.rpartition(": ")[2] for copy in questions(board).values()} == {GONE}


def test_an_outcome_says_what_is_known() -> None:
    one = Approval("q-1", "s", 1, "t", "c", "message", "b", PUBLIC, "ann", ApprovalQuestion("message", {}), ("ask",), 1)
    spent = replace(one, state=ApprovalState.USED, resolved_by="boss")
    late = replace(one, state=ApprovalState.EXPIRED, resolved_by="boss")
    assert outcome("q", (), named=True) == f"q: {GONE}"
    assert outcome("q", (spent, spent), named=True) == "q: approved by boss"
    assert outcome("q", (spent, late), named=True) == "q: 1 approved by boss, 1 not answered in time"
    granted = replace(spent, grant=Grant(FOR_EVER, 9))
    assert outcome("q", (granted,), named=True) == "q: approved by boss, until this conversation is reset"
    assert outcome("q", (spent, late), named=False) == "q: 1 approved, 1 not answered in time"
