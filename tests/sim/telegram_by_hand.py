"""`uv run poe sim-telegram`: Telegram on this machine, with a keyboard as the people, to try a bot without an account.

A line is what the person before the prompt says; it may also name somebody else and a chat: `bob@team> hello`. A few
words with a slash are for the simulator (`/press 1`, `/join`, …); every other goes to the bot. A line that ends in a
backslash goes on in the next one, so that a message may have several.
"""

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.sim.by_hand import Options, play
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_kinds import KINDS
from tests.sim.telegram_state import BOT_ID, Chat, Shown
from tests.sim.telegram_world import Person

HAND_PORT: Final = 8398
_PROMPT: Final = re.compile(r"(\w+)@(\w+)>\s?(.*)", re.DOTALL)
HELP: Final = """\
  NAME@CHAT> text   say it as somebody else or elsewhere: CHAT is `private` or a group's name, made when first used
  text \\             the message goes on in the next line, such as a plan of several `!` calls
  /press N          press the Nth button of the newest message that has some
  /reply text       answer the bot's newest message        /edit text      change one's own newest message
  /forward text     say it as forwarded from somebody      /file NAME text send a file with this content
  /join  /leave     come into the chat, go out of it       /block /unblock the bot, in private
  /album A B text   send two files with a caption          /paste N        send N characters, cut as clients do
  /send KIND        a sticker, location, venue, contact, poll or dice
  /promote          make the bot an administrator here     /mute /unmute  take the bot its right to write here
  /429              let the next message fail              /500            let it come and fail all the same
  /who              who is in the chat, by which account   /? /quit"""


@dataclass
class Hand:
    """The keyboard: who is speaking where, and what of the chats was told already."""

    server: Telegram
    people: dict[str, Person] = field(default_factory=dict[str, Person])
    groups: dict[str, Chat] = field(default_factory=dict[str, Chat])
    name: str = "alice"
    place: str = "private"
    told: dict[Shown, str] = field(default_factory=dict[Shown, str])
    done: dict[Chat, int] = field(default_factory=dict[Chat, int])
    named: set[str] = field(default_factory=set[str])
    begun: str = ""

    @property
    def person(self) -> Person:
        """Who speaks."""
        if self.name not in self.people:
            self.people[self.name] = self.server.user(self.name)
        return self.people[self.name]

    @property
    def chat(self) -> Chat:
        """Where."""
        if self.place == "private":
            return self.person.private
        if self.place not in self.groups:
            self.groups[self.place] = self.server.supergroup(self.place, self.person)
        return self.groups[self.place]

    def line(self, line: str) -> str:
        """Do what a line says, and return what to tell; `/quit` is not for here."""
        line = f"{self.begun}{line}"
        self.begun = f"{line.removesuffix(chr(92))}\n" if line.endswith("\\") else ""
        if self.begun:
            return ""
        if named := _PROMPT.match(line):
            self.name, self.place, line = named.groups()
        word, _, rest = line.strip().partition(" ")
        if word in _WORDS:
            try:
                return _WORDS[word](self, rest.strip())
            except (ValueError, IndexError, StopIteration):
                return "  there is nothing to do that with"
        if line.strip():
            if not self.chat.holds(self.person.id):
                return f"  {self.name} is not in {self.place}: /join"
            self.person.says(self.chat, line.strip())
        return ""

    def news(self) -> list[str]:
        """Return who came and what the bot did in the chats since it was last asked."""
        lines = [f"  {name} is {_account(one.id)}" for name, one in self.people.items() if name not in self.named]
        self.named |= self.people.keys()
        for chat in list(self.server.state.chats.values()):
            where = chat.title if chat.type != "private" else f"{chat.title}@private"
            for action, _ in chat.actions[self.done.get(chat, 0) :]:
                lines.append(f"  [{where}] … {action}")
            self.done[chat] = len(chat.actions)
            for shown in [shown for shown in chat.messages if shown.by_bot]:
                look = "(deleted)" if shown.deleted else _look(self.server, shown)
                if self.told.get(shown) != look:
                    verb = "changed" if shown in self.told else "says"
                    lines.append(f"  [{where}] the bot {verb}: {look}")
                    self.told[shown] = look
        return lines


def _account(person: int) -> str:
    """Return an account as config.yaml and commands name it."""
    return f"telegram:{person}"


def _look(server: Telegram, shown: Shown) -> str:
    only = f"(only {server.state.who(shown.seen_by)['first_name']} sees this) " if shown.seen_by else ""
    document = shown.json.get("document", {})
    file = f"<{document['file_name']}, {document['file_size']} bytes> " if document else ""
    keys = "".join(f"\n      {number}) {button['text']}" for number, button in enumerate(shown.buttons, 1))
    return only + file + shown.text.replace("\n", "\n      ") + keys


def _newest(hand: Hand, *, by_bot: bool) -> Shown:
    return next(
        shown
        for shown in reversed(hand.chat.shows)
        if shown.by_bot == by_bot and (by_bot or shown.json["from"]["id"] == hand.person.id)
    )


def _press(hand: Hand, rest: str) -> str:
    shown = next(shown for shown in reversed(hand.chat.shows) if shown.buttons)
    if int(rest or "1") < 1:
        raise ValueError(rest)
    hand.person.presses(shown, int(rest or "1") - 1)
    return ""


def _reply(hand: Hand, rest: str) -> str:
    hand.person.says(hand.chat, rest, reply_to=_newest(hand, by_bot=True))
    return ""


def _edit(hand: Hand, rest: str) -> str:
    hand.person.edits(_newest(hand, by_bot=False), rest)
    return ""


def _forward(hand: Hand, rest: str) -> str:
    hand.person.says(hand.chat, rest, forward_of="Somebody")
    return ""


def _file(hand: Hand, rest: str) -> str:
    name, _, content = rest.partition(" ")
    hand.person.says(hand.chat, document=(name or "file.txt", content.encode()))
    return ""


def _join(hand: Hand, _rest: str) -> str:
    hand.person.joins(hand.chat)
    return ""


def _leave(hand: Hand, _rest: str) -> str:
    hand.person.leaves(hand.chat)
    return ""


def _block(hand: Hand, _rest: str) -> str:
    hand.person.blocks()
    return ""


def _unblock(hand: Hand, _rest: str) -> str:
    hand.person.unblocks()
    return ""


def _promote(hand: Hand, _rest: str) -> str:
    hand.server.bot_becomes(hand.chat, "administrator", by=hand.person)
    return ""


def _limit(hand: Hand, _rest: str) -> str:
    hand.server.fails("sendMessage", retry_after=3)
    return "  the next message fails with 429, retry after 3"


def _album(hand: Hand, rest: str) -> str:
    first, second, *caption = rest.split(maxsplit=2)
    hand.person.album(hand.chat, (first, b"one"), (second, b"two"), caption="".join(caption))
    return ""


def _paste(hand: Hand, rest: str) -> str:
    most = int(rest)
    hand.person.pastes(hand.chat, "".join(f"line {number}\n" for number in range(most // 6 + 1))[:most])
    return ""


def _send(hand: Hand, rest: str) -> str:
    if rest not in KINDS:
        raise ValueError(rest)
    hand.person.sends(hand.chat, rest)
    return ""


def _mute(hand: Hand, _rest: str) -> str:
    hand.server.restrict(hand.chat)
    return "  the bot has no right to write here"


def _unmute(hand: Hand, _rest: str) -> str:
    hand.server.restrict(hand.chat, muted=False)
    return "  the bot may write here again"


def _broken(hand: Hand, _rest: str) -> str:
    hand.server.breaks("sendMessage")
    return "  the next message comes, and its call fails with 500"


def _who(hand: Hand, _rest: str) -> str:
    return "\n".join(
        f"  {hand.server.state.who(person)['first_name']}: {how}, {_known_as(hand, person)}"
        for person, how in hand.chat.members.items()
    )


def _known_as(hand: Hand, person: int) -> str:
    return f"mentioned as @{hand.server.state.username}" if person == BOT_ID else _account(person)


_WORDS: Final[dict[str, Callable[[Hand, str], str]]] = {
    "/press": _press,
    "/reply": _reply,
    "/edit": _edit,
    "/forward": _forward,
    "/file": _file,
    "/join": _join,
    "/leave": _leave,
    "/block": _block,
    "/unblock": _unblock,
    "/promote": _promote,
    "/album": _album,
    "/paste": _paste,
    "/send": _send,
    "/mute": _mute,
    "/unmute": _unmute,
    "/429": _limit,
    "/500": _broken,
    "/who": _who,
    "/?": lambda _hand, _rest: HELP,
}


async def watch(hand: Hand, tell: Callable[[str], None]) -> None:
    """Tell what the bot does, as it does it."""
    answered: set[str] = set()
    while True:
        changed = hand.server.state.changed
        lines = hand.news()
        for number, query in list(hand.server.state.queries.items()):
            if query.answer is not None and number not in answered:
                answered.add(number)
                if query.answer["text"]:
                    lines.append(f"  [{query.json['from']['first_name']} sees] {query.answer['text']}")
        for line in lines:
            tell(line)
        await changed.wait()


async def by_hand(port: int) -> None:
    """Serve until the keyboard ends."""
    async with telegram(port=port) as server:
        hand = Hand(server)
        print(f"Telegram plays on this machine. The bot's token is {server.token}")
        print(f"base_url: http://127.0.0.1:{server.port}")
        print(f"in groups the bot hears what mentions it: @{server.state.username}")
        print(HELP)
        print(f"  {hand.name} is {_account(hand.person.id)}", flush=True)
        hand.named.add(hand.name)
        watching = asyncio.create_task(watch(hand, lambda line: print(line, flush=True)))
        try:
            while True:
                print(f"{hand.name}@{hand.place}> ", end="", flush=True)
                line = await asyncio.to_thread(sys.stdin.readline)
                if not line or line.strip() == "/quit":
                    return
                if told := hand.line(line):
                    print(told, flush=True)
                await asyncio.sleep(0.3)  # most answers of the bot come before the next prompt
        finally:
            watching.cancel()


if __name__ == "__main__":
    chosen = Options(__doc__, HAND_PORT).parse_args()
    play(by_hand(chosen.port), chosen.port)
