"""Recipients: which names lead where, for whom, and one refusal for all others."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.access import principals, recipients
from channels.messages import Address
from policy.document.model import Document
from policy.labels import PUBLIC, Label
from tests.bot.board import Board
from tests.bot.kit import INTERNAL, TOP, bang, document, eventually, policy
from tests.harness import Person, running
from tests.people import principal

CHANNELS = {
    "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    "board": {"classification": "CONFIDENTIAL", "inbound": "PUBLIC"},
    "wall": {"classification": "CONFIDENTIAL"},
}
PEOPLE = {
    "owner": principal("console:owner"),
    "ann": principal("board:7", "wall:T1:7", role="member", clearance="CONFIDENTIAL"),
    "ben": principal("board:8", "board:9", role="member", clearance="INTERNAL"),
    "gus": principal("board:10", role="guest", clearance="PUBLIC"),
    "eve": principal("board:11", role="member", clearance="INTERNAL"),
}
CHATS = {
    "crew": {"channel": "board", "chat": "-5", "classification": "INTERNAL"},
    "heads": {"channel": "board", "chat": "-6", "classification": "CONFIDENTIAL"},
    "gone": {"channel": "board", "chat": "-7", "classification": "INTERNAL", "blocked": True},
    "fans": {"channel": "board", "chat": "-8", "classification": "PUBLIC"},
    "one": {"channel": "wall", "workspace": "T1", "chat": "C1", "classification": "INTERNAL"},
    "two": {"channel": "wall", "workspace": "T2", "chat": "C1", "classification": "INTERNAL"},
}
ALIASES = {
    "desk": {"channel": "board", "chat": "desk", "clearance": "CONFIDENTIAL"},
    "duty": [
        {"channel": "board", "chat": "duty", "clearance": "INTERNAL"},
        {"channel": "wall", "chat": "D7", "workspace": "T1", "clearance": "INTERNAL"},
    ],
    "eve": {"channel": "board", "chat": "notice-board", "clearance": "INTERNAL"},
}
KNOWN: Document = document(channels=CHANNELS, principals=PEOPLE, chats=CHATS, recipients=ALIASES, blocked=["board:9"])
FANS = principals.of_chat(Address("board", "-8"))


@dataclass(frozen=True)
class Sender:
    """Who sends."""

    principal: str = "owner"
    asker: str = "owner"
    ceiling: Label = TOP


OWNER = Sender()
GUS = Sender("gus", "gus", PUBLIC)


def found(name: str, channel: str = "", sender: Sender = OWNER) -> str | None:
    """Return where a name leads, None where it is refused."""
    try:
        return str(recipients.find(KNOWN, sender, name, channel))
    except recipients.UnknownRecipientError:
        return None


@pytest.mark.parametrize(
    "name, channel, place",
    [
        pytest.param("desk", "board", "board::desk:", id="an alias"),
        pytest.param("desk", "", "board::desk:", id="an alias on one channel"),
        pytest.param("desk", "wall", None, id="an alias of another channel"),
        pytest.param("duty", "board", "board::duty:", id="an alias on several channels"),
        pytest.param("duty", "wall", "wall:T1:D7:", id="the same on another"),
        pytest.param("duty", "", None, id="without the channel it is ambiguous"),
        pytest.param("wall:duty", "", "wall:T1:D7:", id="with its channel before it"),
        pytest.param("wall:duty", "wall", None, id="the channel said twice"),
        pytest.param("ann", "board", "board::7:", id="a person"),
        pytest.param("ann", "wall", "wall:T1:7:", id="a person in a workspace"),
        pytest.param("ann", "", None, id="a person on several channels"),
        pytest.param("owner", "", "console::owner:", id="a person on one channel"),
        pytest.param("ben", "board", "board::8:", id="a person one of whose accounts is blocked"),
        pytest.param("eve", "board", None, id="a person's name that is an alias of another place"),
        pytest.param("ann", "console", None, id="a person who is not on that channel"),
        pytest.param("-5", "board", "board::-5:", id="a chat by its id"),
        pytest.param("-5", "", "board::-5:", id="the same without its channel"),
        pytest.param("crew", "board", None, id="a chat by our name for it"),
        pytest.param("-7", "board", None, id="a blocked chat"),
        pytest.param("-99", "board", None, id="a chat nobody classified"),
        pytest.param("C1", "wall", None, id="an id in two workspaces"),
        pytest.param("7", "board", "board::7:", id="a private chat by its id"),
        pytest.param("9", "board", None, id="a private chat of a blocked account"),
        pytest.param("", "board", None, id="nothing"),
        pytest.param("x", "nowhere", None, id="a channel there is not"),
    ],
)
def test_where_a_name_leads(name: str, channel: str, place: str | None) -> None:
    assert found(name, channel) == place


def test_an_ambiguous_person_is_refused() -> None:
    both = document(channels=CHANNELS, principals=PEOPLE, recipients={})
    with pytest.raises(recipients.UnknownRecipientError):
        recipients.find(both, OWNER, "ben", "board")


@pytest.mark.parametrize(
    "sender, names",
    [
        pytest.param(OWNER, {"desk", "ann", "gus", "-5", "-6", "-8", "7", "10"}, id="cleared for all"),
        pytest.param(Sender("ben", "ben", INTERNAL), {"desk", "ann", "gus", "-5", "-8", "7", "10"}, id="INTERNAL"),
        pytest.param(GUS, {"desk", "gus", "10"}, id="a guest knows of themselves and of aliases"),
        pytest.param(Sender(FANS, "gus", PUBLIC), {"desk", "gus", "10", "-8"}, id="a public chat, of itself"),
        pytest.param(Sender(FANS, "ann", PUBLIC), {"desk", "ann", "7", "-8"}, id="and of whoever asks there"),
    ],
)
def test_no_read_up_who_may_be_named_by_whom(sender: Sender, names: set[str]) -> None:
    asked = ("desk", "ann", "gus", "-5", "-6", "-7", "-8", "7", "10", "nobody")
    assert {name for name in asked if found(name, "board", sender)} == names


def test_every_place_of_an_alias_has_a_name_of_its_own() -> None:
    named = recipients.names(KNOWN)
    assert [name for name, _ in named] == ["desk", "board:duty", "wall:duty", "eve"]
    duty = [place for name, place in named if name.endswith("duty")]
    assert [str(recipients.find(KNOWN, OWNER, name)) for name in ("board:duty", "wall:duty")] == list(map(str, duty))


async def _arrives(owner: Person, board: Board, said: str, chat: str) -> str:
    """Let the agent say something; return what arrives in a chat."""
    await owner.say(said)

    async def there() -> bool:
        return bool(board.at(chat))

    await eventually(there)
    return board.at(chat)[0].text


CONFIG = policy(
    channels={name: CHANNELS[name] for name in ("console", "board")},
    principals={name: PEOPLE[name] for name in ("owner", "ann")} | {"ann": {**PEOPLE["ann"], "accounts": ["board:7"]}},
    chats={"crew": CHATS["crew"]},
    recipients={"owner": {"channel": "console", "chat": "owner", "clearance": "top"}},
)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "said, chat",
    [
        (bang("message", channel="board", recipient="ann", text="hello"), "7"),
        (bang("message", channel="board", recipient="7", text="hello"), "7"),
        (bang("message", channel="board", recipient="-5", text="hello"), "-5"),
        (bang("sessions_spawn", task="hello", deliver_to="ann"), "7"),
        (bang("sessions_spawn", task="hello", deliver_to="board:-5"), "-5"),
    ],
    ids=["a person", "an id", "a chat", "a result for a person", "a result for a chat"],
)
async def test_what_is_sent_by_name_arrives(tmp_path: Path, said: str, chat: str) -> None:
    board = Board()
    async with running(tmp_path, CONFIG, channels=[board]) as owner:
        assert "hello" in await _arrives(owner, board, said, chat)


@pytest.mark.anyio
async def test_no_write_down_to_a_person_by_name(tmp_path: Path) -> None:
    board = Board()
    lowered = CONFIG.replace(
        '"clearance": "CONFIDENTIAL", "accounts": ["board:7"]', '"clearance": "INTERNAL", "accounts": ["board:7"]'
    )
    assert lowered != CONFIG
    async with running(tmp_path, lowered, channels=[board]) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        shown = await owner.say(bang("message", channel="board", recipient="ann", text="the plan"))
        assert "no_write_down" in shown
        assert board.at("7") == []
