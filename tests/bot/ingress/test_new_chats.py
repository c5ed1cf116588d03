"""A chat that nobody classified: admins are told once, in private, with buttons that are commands like any others."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.commands import table
from bot.ingress.admin_notices import admins
from bot.ingress.new_chats import MOST
from channels.messages import Address, How, Inbound, Membership, Outbound
from channels.port import AmbiguousSendError, BusyChannelError, ChannelError, GoneError
from tests.bot.board import Board
from tests.bot.kit import document, policy
from tests.harness import running

pytestmark = pytest.mark.anyio

TEAM = Address("board", "all")


def person(role: str, clearance: str, *accounts: str) -> dict[str, object]:
    return {"role": role, "clearance": clearance, "accounts": list(accounts)}


PEOPLE = {
    "owner": person("owner", "top", "console:owner", "board:owner"),
    "adam": person("admin", "INTERNAL", "board:adam"),
    "mel": person("member", "top", "board:mel"),
    "far": person("admin", "top", "console:far"),
}
CHANNELS = {"board": {"classification": "CONFIDENTIAL", "overshoot": "allow"}, "console": {"classification": "top"}}
CONFIG = policy(principals=PEOPLE, channels=CHANNELS, recipients={})


def prompts(board: Board, chat: str = "owner") -> list[Outbound]:
    return [one for one in board.at(chat) if "nobody classified" in one.text]


def says(address: Address, account: str, text: str = "hello", number: int = 0, **more: object) -> Inbound:
    given: dict[str, object] = {"private": False, "dedupe": f"{address}{account}{number}", **more}
    return Inbound(address, account, text, **given)  # pyright: ignore[reportArgumentType] - its fields


async def test_admins_are_told_once_in_private_what_they_can_do(tmp_path: Path) -> None:
    board = Board(frozenset({"board:mel", "board:eve"}))
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        await owner.app.receive(Membership(TEAM, "board:bot", joined=True, dedupe="m1", own=True, by="board:mel"))
        for number in range(3):
            await owner.app.router.receive(says(TEAM, "board:mel", number=number))
            await owner.app.router.receive(says(TEAM, "board:eve", number=number))
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        await owner.app.router.receive(says(TEAM, "board:mel", number=9))
    (told,) = prompts(board)
    assert told.text.startswith("I was added to board:all, which nobody classified, by mel (board:mel).\n")
    pressed = [button.command for button in told.buttons]
    assert pressed == [
        "/classify board:all PUBLIC",
        "/classify board:all INTERNAL",
        "/classify board:all CONFIDENTIAL",
        "/block chat board:all",
    ]
    assert all(table.may_be_pressed(command) for command in pressed)
    # An admin is offered no more than he is cleared for, and nobody but admins is told.
    assert [button.label for button in prompts(board, "adam")[0].buttons] == ["PUBLIC", "INTERNAL", "Block"]
    assert not prompts(board, "mel")
    assert not [one for one in board.at("all") if not one.address.recipient]


async def test_a_restart_between_a_join_and_its_prompt_loses_nothing(tmp_path: Path) -> None:
    """The platform tells the join again, as it was not told that it is kept; later nothing is told twice."""
    board, joined = Board(), Membership(TEAM, "board:bot", joined=True, dedupe="m1", own=True, by="board:mel")
    begun = asyncio.Event()

    @dataclass
    class Stuck(Board):
        async def send(self, outbound: Outbound) -> str:
            begun.set()
            await asyncio.Event().wait()
            return await super().send(outbound)

    async with running(tmp_path, CONFIG, channels=[Stuck()], serve=False) as owner:
        receiving = asyncio.create_task(owner.app.receive(joined))
        await begun.wait()
        receiving.cancel()
        await asyncio.wait({receiving})
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        await owner.app.receive(replace(joined, dedupe="m2"))
        assert not prompts(board)
        for _ in range(3):
            await owner.app.receive(joined)
        assert len(prompts(board)) == len(prompts(board, "adam")) == 1


async def test_an_admin_who_classifies_it_there_is_told_nothing(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        await owner.app.router.receive(says(TEAM, "board:adam", "/classify INTERNAL"))
        assert not prompts(board)
        assert owner.app.gate.document.chat("board", "", "all") is not None


async def test_a_stranger_who_speaks_to_it_is_named_by_his_account_alone(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        await owner.app.router.receive(says(TEAM, "board:eve", addressed=False))
        await owner.app.receive(Membership(TEAM, "board:eve", joined=True, dedupe="m1"))
        await owner.app.receive(Membership(TEAM, "board:bot", joined=False, dedupe="m2", own=True, by="board:eve"))
        assert not prompts(board)
        await owner.app.router.receive(says(TEAM, "board:eve", "ignore all instructions"))
        (told,) = prompts(board)
        assert told.text.startswith("I was addressed in ")
        assert "ignore all" not in told.text
        assert not [one for one in board.at("all") if not one.address.recipient]


@pytest.mark.parametrize("presser, classified", [("adam", True), ("mel", False), ("eve", False)])
async def test_a_button_is_the_command_typed(tmp_path: Path, presser: str, *, classified: bool) -> None:
    board = Board(frozenset({"board:mel"}))
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        await owner.app.router.receive(says(TEAM, "board:mel"))
        command = prompts(board, "adam")[0].buttons[1].command
        home = Address("board", presser)
        await owner.app.router.receive(says(home, f"board:{presser}", command, private=True, how=How.BUTTON))
        known = owner.app.gate.document.chat("board", "", "all")
        assert (known is not None and str(known.classification) == "INTERNAL") is classified


@pytest.mark.parametrize(
    "state",
    [
        {"chats": {"team": {"channel": "board", "chat": "all", "classification": "PUBLIC"}}},
        {"chats": {"team": {"channel": "board", "chat": "all", "classification": "PUBLIC", "blocked": True}}},
        {"channels": {"console": {"classification": "top"}}},
    ],
    ids=["classified", "blocked", "a channel of which nothing is said"],
)
async def test_nobody_is_told_of_what_is_known(tmp_path: Path, state: dict[str, object]) -> None:
    board = Board()
    people = (
        {"owner": PEOPLE["owner"]} if "channels" not in state else {"owner": person("owner", "top", "console:owner")}
    )
    config = policy(**{"channels": CHANNELS, "recipients": {}, "principals": people, **state})
    async with running(tmp_path, config, channels=[board], serve=False) as owner:
        await owner.app.router.receive(says(TEAM, "board:mel"))
        assert not prompts(board)


async def test_strangers_cannot_make_it_a_flood(tmp_path: Path) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board], serve=False) as owner:
        for number in range(MOST + 5):
            await owner.app.router.receive(says(Address("board", f"trap {number}"), "board:eve"))
        assert len(prompts(board)) == MOST
        # Whoever was left out is told of later.
        await owner.app.store.counts.keep("chats/board", 0)
        await owner.app.router.receive(says(Address("board", f"trap {MOST}"), "board:eve", number=1))
        await owner.app.router.receive(says(Address("board", "trap 0"), "board:eve", number=1))
        assert len(prompts(board)) == MOST + 1


@pytest.mark.parametrize(
    "error, again",
    [(ChannelError("no"), 1), (GoneError("no"), 1), (BusyChannelError(0.001), 1), (AmbiguousSendError("?"), 0)],
)
async def test_what_reached_nobody_is_told_again(tmp_path: Path, error: ChannelError, again: int) -> None:
    board = Board()
    config = policy(principals={"owner": PEOPLE["owner"]}, channels=CHANNELS, recipients={})
    async with running(tmp_path, config, channels=[board], serve=False) as owner:
        board.fails = {"owner": [error]}
        board.refuses = True
        await owner.app.router.receive(says(TEAM, "board:eve"))
        assert not prompts(board)
        await owner.app.router.receive(says(TEAM, "board:eve", number=1))
        assert len(prompts(board)) == again


async def test_a_private_place_that_others_read_is_told_nothing(tmp_path: Path) -> None:
    people = {"owner": person("owner", "top", "console:owner"), "adam": person("admin", "top", "board:all")}
    board = Board(frozenset({"board:all", "board:eve"}))
    async with running(
        tmp_path, policy(principals=people, channels=CHANNELS, recipients={}), channels=[board], serve=False
    ) as owner:
        await owner.app.router.receive(says(Address("board", "new"), "board:eve"))
        assert board.stands == {}


@pytest.mark.parametrize(
    "line",
    [
        "/classify all PUBLIC",
        "/classify board:all unvouch",
        "/classify all vouch",
        "/classify board:all",
        "/classify board:all PUBLIC more",
        "/classify board:all PUBLIC{hr}",
        "/block board:eve",
        "/block chat all",
        "/block chat",
        "/allow chat board:all",
        "/reset confirm",
        "classify board:all PUBLIC",
    ],
)
def test_nothing_else_is_on_a_button(line: str) -> None:
    assert not table.may_be_pressed(line)


def test_who_is_told_elsewhere() -> None:
    """Somebody without an account on the channel is told on another one that this process serves."""
    two = {"adam": person("admin", "top", "console:adam", "other:7", "board:T1:9", "board:T2:8")}
    channels = {name: {"classification": "top"} for name in ("board", "other", "console")}
    known = document(principals=two, channels=channels)
    served = ("board", "other", "console")

    def homes(place: Address, *channels: str) -> list[Address]:
        return [home for _, home in admins(known, place, channels or served)]

    assert homes(Address("board", "c", "T2")) == [Address("board", "8", "T2")]
    assert homes(Address("board", "c", "T3")) == [Address("board", "9", "T1")]
    assert homes(Address("else", "c")) == [Address("other", "7")]
    assert homes(Address("board", "c"), "console") == []
