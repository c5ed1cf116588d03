"""People in rooms and a server with accounts: each connects, asks, and is answered as the person they are."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from channels.messages import Address
from tests.bot.kit import bang
from tests.bot.rooms import CHATS, People, talking, team
from tests.sim.mcp_oauth import OAuthServer

WHOAMI: Final = bang("notes__whoami")
TOOLS: Final[dict[str, JsonValue]] = {
    "whoami": {"description": "Tell whose notes they are.", "effect": "read", "consequential": False}
}
LABELLED: Final = {"notes": {"floor": "INTERNAL", "clearance": "INTERNAL"}}


def entry(server: OAuthServer, accounts: str = "personal", **oauth: JsonValue) -> dict[str, JsonValue]:
    """Return the block of a configuration with this server."""
    asks: dict[str, JsonValue] = {"accounts": accounts, **oauth}
    return {"mcp_servers": {"notes": {"url": server.url, "tools": TOOLS, "oauth": asks}}}


def private(who: str) -> Address:
    """Return somebody's private chat."""
    return Address("room", who)


@dataclass
class Board(People):
    """People, and the server where they connect accounts."""

    server: OAuthServer = None  # pyright: ignore[reportAssignmentType] - always given

    async def told(self, who: str, text: str) -> str:
        """Say something in somebody's private chat, and return the answer."""
        before = len(self.rooms.heard(private(who)))
        await self.say(who, text, private(who))
        return "\n".join(self.rooms.heard(private(who))[before:])

    async def link(self, who: str) -> str:
        """Ask for a link as somebody."""
        found = re.search(r"http://\S+/authorize\S+", await self.told(who, "/connect notes"))
        assert found is not None
        return found[0]

    async def code(self, who: str, user: str = "") -> str:
        """Ask for a link as `who`, consent as `user`, and return the code of the page."""
        page = await self.server.browse(await self.link(who), user or who)
        found = re.search(r"/connect notes (\S+)", page)
        assert found is not None, page
        return found[1]

    async def connect(self, who: str, user: str = "") -> None:
        """Connect an account of somebody."""
        code = await self.code(who, user)
        assert "is connected" in await self.told(who, f"/connect notes {code} confirm")

    async def approve(self, who: str) -> None:
        """Approve the open question of the team's room as somebody."""
        button = next(one for sent in reversed(self.rooms.sent) for one in sent.buttons if "/approve" in one.command)
        await self.say(who, button.command)

    async def asked(self, who: str) -> str:
        """Have the agent ask the server in the team's room, and return what was said there."""
        before = len(self.rooms.said)
        await self.say(who, WHOAMI)
        return "\n".join(self.rooms.said[before:])


@asynccontextmanager
async def board(folder: Path, server: OAuthServer, *members: str, **sections: object) -> AsyncGenerator[Board]:
    """Open an application with the server and several people, some of them members of the team's room."""
    chats = {"team": {**CHATS["team"], "inbound": "PUBLIC"}}
    given: dict[str, Any] = {"blocks": entry(server), "mcp_servers": LABELLED, "chats": chats, **sections}
    async with talking(folder, team(*(members or ("ann",))), **given) as people:
        yield Board(people.app, people.rooms, server=server)
