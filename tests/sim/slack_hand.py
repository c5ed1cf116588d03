"""The played Slack by hand: `uv run poe sim-slack` serves on a port, and whoever sits at the keyboard is everybody.

`alice#general> hello` lets alice write there, and switches to her; a line alone is said where the last one was. What
others say, and what the app shows, appears as it changes. `/press 1` presses the button that was shown as [1], any
other line with `/` is a slash command. `?slow`, `?429` and the like are faults, `/help` tells them.
"""

import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tests.sim.by_hand import Options, address, play
from tests.sim.slack import Slack, slack
from tests.sim.slack_blocks import shown
from tests.sim.slack_events import AGAIN
from tests.sim.slack_people import Person
from tests.sim.slack_state import Channel, Json, Message, SlackError

HAND_PORT: Final = 8397
"""Another one than `sim-telegram` and `sim-provider` have, so that all may play at once."""
HELP = """\
alice#general> hello   alice writes in #general (people and channels are made as they are named)
alice@> hello          alice writes to the bot alone
hello                  the one who spoke last, where it was
+3 hello               in the thread of message 3
@ hello                with a mention of the bot
/press 1               press the button [1]
/lockgate status       a slash command
/home                  open the app's home
/join bob general      bob joins (`bob!` is a guest)
/share general         share a channel with another organisation
?429 ?500 ?cut ?dead ?twice ?disconnect   faults: the next call is refused, fails, loses its answer; sockets die;
                       events come twice; sockets are told to go
?done ?bare ?rights    the next call is done and fails all the same, is answered barely; the app loses or gets back the
                       right to write where you are
"""
_PLACE = re.compile(r"(?P<who>\w+!?)(?:#(?P<channel>[\w-]+)|@)>\s?(?P<text>.*)\Z", re.DOTALL)


@dataclass
class Hand:
    """Whose keyboard it is now, and what was shown so far."""

    played: Slack
    who: Person
    where: Channel
    known: dict[str, str] = field(default_factory=dict[str, str])
    numbered: list[Message] = field(default_factory=list[Message])
    buttons: list[tuple[Message | None, str]] = field(default_factory=list[tuple[Message | None, str]])

    @property
    def prompt(self) -> str:
        """Who writes where."""
        return f"{self.who.member.name}{'@' if self.where.kind == 'im' else f'#{self.where.name}'}> "

    async def does(self, line: str) -> Iterator[str]:
        """Do what a line says, and return what is to be shown."""
        try:
            return iter(await self._does(line.strip()))
        except (SlackError, KeyError, IndexError, ValueError) as problem:
            return iter([f"  Slack refuses: {problem}"])

    async def _does(self, line: str) -> list[str]:
        if found := _PLACE.match(line):
            self._go(found["who"], found["channel"])
            line = found["text"]
        if line.startswith("?"):
            return await self._fault(line[1:])
        if line.startswith("/"):
            return await self._commands(line)
        if line:
            thread = None
            if line.startswith("+"):
                number, _, line = line[1:].partition(" ")
                thread = self.numbered[int(number) - 1]
            mention = f"<@{self.played.bot.user}> " if line.startswith("@ ") else ""
            await self.who.says(self.where, mention + line.removeprefix("@ "), thread)
        return []

    def _go(self, who: str, channel: str | None) -> None:
        self.who = self.played.user(who.removesuffix("!"), is_ultra_restricted=who.endswith("!"))
        self.where = self.who.dm() if channel is None else self.played.channel(channel)
        if self.who.id not in self.where.members:
            self.played.state.join(self.where, self.who.id)

    async def _commands(self, line: str) -> list[str]:
        match line.split():
            case ["/help"]:
                return [HELP]
            case ["/press", number]:
                message, action = self.buttons[int(number) - 1]
                if message is None:
                    await self.who.presses_in(self.who.home(), action)
                else:
                    await self.who.presses(message, action)
            case ["/home"]:
                await self.who.opens_home()
                with suppress(TimeoutError):
                    await self.played.until(self.who.home, seconds=5)
                return [f"  home of {self.who.member.name}:", *self._drawn(self.who.home(), None)]
            case ["/join", who, channel]:
                self._go(who, channel)
            case ["/share", channel]:
                other = self.played.workspace("elsewhere")
                await self.played.share(self.played.channel(channel), other)
            case _:
                await self.who.runs(line, self.where)
        return []

    async def _fault(self, name: str) -> list[str]:
        match name:
            case "429" | "500":
                self.played.fails("chat.postMessage", status=int(name), retry_after=5)
            case "cut":
                self.played.fails("chat.postMessage", cut="after")
            case "done":
                self.played.fails("chat.postMessage", status=500, done=True)
            case "bare":
                self.played.fails("chat.postMessage", spared=True)
            case "rights":
                self.where.restricted = not self.where.restricted
            case "dead":
                self.played.sockets.die()
            case "twice":
                self.played.reach.extra = 1 - self.played.reach.extra
            case "disconnect":
                await self.played.sockets.disconnect()
            case _:
                return ["  no such fault, see /help"]
        return ["  so be it"]

    def news(self) -> Iterator[str]:
        """Yield the lines that tell what changed since the last time."""
        for channel in self.played.state.channels.values():
            for message in channel.messages:
                key = f"{channel.id}{message.ts}"
                now = "(deleted)" if message.deleted else shown(message.body) + str(message.blocks)
                if self.known.get(key) == now:
                    continue
                again = "~" if key in self.known else ""
                self.known[key] = now
                yield from self._told(channel, message, again)
        for (channel_id, _ts), status in self.played.state.statuses.items():
            key = f"status{channel_id}"
            if self.known.get(key, "") != status:
                self.known[key] = status
                yield f"  ({self.played.bot.user} {status or 'is done'})"

    def _told(self, channel: Channel, message: Message, again: str) -> Iterator[str]:
        if message not in self.numbered:
            self.numbered.append(message)
        member = self.played.state.members.get(message.user)
        name = "Slack" if member is None else member.name
        where = "@" if channel.kind == "im" else f"#{channel.name}"
        only = f" (only {self.played.state.members[message.shown_to].name} sees this)" if message.shown_to else ""
        thread = " ↳" if message.thread not in {"", message.ts} else ""
        yield f"{self.numbered.index(message) + 1:>3}{again} {where}{thread} {name}:{only}"
        yield from ["    (deleted)"] if message.deleted else self._drawn(message.body, message)

    def _drawn(self, body: Json, message: Message | None) -> Iterator[str]:
        yield from (f"    {line}" for line in shown(body).strip().splitlines() if line)
        for block in body.get("blocks") or ():
            elements: list[Json] = [*block.get("elements", ()), block.get("accessory", Json())]
            for element in elements:
                if element.get("type") == "button":
                    self.buttons.append((message, str(element["action_id"])))
                    yield f"    [{len(self.buttons)}] {element['text']['text']}"


async def by_hand(port: int, events: str) -> None:
    """Serve, read the keyboard and show what changes, until the end of the input."""
    async with slack(port=port, events=events) as played:
        played.reach.again, played.reach.patient = AGAIN, False
        alice = played.user("alice", is_admin=True)
        general = played.channel("general", alice, played.user("bob"))
        print(f"a Slack plays on {played.api}; configure the bot with")
        print(f"  base url        {played.api}")
        print(f"  bot token       {played.bot.value}")
        print(f"  app token       {played.app_token}")
        print(f"  signing secret  {played.state.app.signing_secret}")
        print(f"  alice is        {alice.id} of workspace {played.team.id}")
        print("--events http://127.0.0.1:3000/slack/events sends events there; /help tells the rest")
        hand = Hand(played, alice, general)
        reading = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        print(hand.prompt, end="", flush=True)
        while True:
            done, _ = await asyncio.wait({reading}, timeout=0.1)
            lines: list[str] = []
            if done:
                if not (line := reading.result()):
                    break
                lines += await hand.does(line)
                reading = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
            if (lines := [*lines, *hand.news()]) or done:
                print("\r" + "".join(f"{line}\n" for line in lines) + hand.prompt, end="", flush=True)


if __name__ == "__main__":
    options = Options(__doc__, HAND_PORT)
    options.add_argument("--events", type=address, default="", help="where events are sent, else by sockets")
    chosen = options.parse_args()
    play(by_hand(chosen.port, chosen.events), chosen.port)
