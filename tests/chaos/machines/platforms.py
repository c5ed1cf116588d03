"""The two platforms of a storm and their people. Each person writes to the bot in a private chat.

Chats are numbered: the even ones are on Telegram, the odd ones on Slack. A platform tells a message again until the bot
takes it; Slack tells each twice in any case.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from channels.messages import Address
from channels.telegram.render import REPEATED
from tests.chaos.platform_server import Shown
from tests.chaos.storm_laws import NAME
from tests.chaos.storm_plan import Input
from tests.sim.slack import Slack, slack
from tests.sim.slack_people import Person as SlackPerson
from tests.sim.slack_state import Json
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_world import Person as TelegramPerson

_LOOK_SECONDS: Final = 0.05
_AGAIN_SECONDS: Final = 5.0
_APPROVE: Final = frozenset({"Approve", "Once"})
"""The buttons that approve a call: the second one where it may be approved for further calls, too."""


@dataclass
class Platforms:
    """Both platforms. `said` is when each input was said, by its name, and `first` when each text was seen first.

    People approve each call that they are asked about, again and again as long as there is a button; `asked` are the
    questions.
    """

    telegram: Telegram
    slack: Slack
    people: list[tuple[TelegramPerson, SlackPerson]]
    said: dict[str, float] = field(default_factory=dict[str, float])
    first: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])
    asked: dict[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str])
    _pressed: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])

    @property
    def chats(self) -> range:
        """The numbers of all chats."""
        return range(2 * len(self.people))

    def account(self, chat: int) -> str:
        """Return the account of the person of a chat."""
        here, there = self.people[chat // 2]
        return f"slack:{self.slack.team.id}:{there.id}" if chat % 2 else f"telegram:{here.id}"

    def address(self, chat: int) -> Address:
        """Return the address of a chat."""
        here, there = self.people[chat // 2]
        return Address("slack", there.id, self.slack.team.id) if chat % 2 else Address("telegram", str(here.id))

    async def say(self, one: Input) -> None:
        """Say an input in its chat."""
        here, there = self.people[one.chat // 2]
        self.said[one.name] = asyncio.get_running_loop().time()
        if one.chat % 2:
            await there.says(there.dm(), one.text)
        else:
            here.says(None, one.text)

    def lose_answer(self, chat: int) -> None:
        """Show the next text on the platform of a chat, and hang up in place of an answer."""
        if chat % 2:
            self.slack.fails("chat.postMessage", cut="after")
        else:
            self.telegram.loses("sendMessage")

    @property
    def all_taken(self) -> bool:
        """Whether every message was acknowledged by the bot."""
        return not (self.telegram.state.updates or self.telegram.state.again or self.slack.reach.waiting)

    def shown(self, chat: int) -> list[Shown]:
        """Return what the bot said in a chat; a text that bears the name of an input is its own key."""
        return [
            Shown(
                chat=f"c{chat}",
                key=text if NAME.search(text) else f"{chat}/{place}",
                text=text,
                repeated=REPEATED in text,
                at=self.first.get((chat, place), 0.0),
            )
            for place, text in self._texts(chat)
        ]

    async def watch(self) -> None:
        """Note when texts are seen first, until cancelled."""
        while True:
            now = asyncio.get_running_loop().time()
            for chat in self.chats:
                for place, text in self._texts(chat):
                    if NAME.search(text):
                        self.first.setdefault((chat, place), now)
                await self._answer(chat, now)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _answer(self, chat: int, now: float) -> None:
        """Press the button that approves of each question in a chat."""
        here, there = self.people[chat // 2]
        if chat % 2:
            for said in there.messages(there.dm()):
                keys = [key for block in said.blocks for key in block.get("elements", ()) if _approves(key)]
                if keys and self._due((chat, said.ts), said.text, now):
                    await there.presses(said, str(keys[0]["action_id"]))
        else:
            for shown in here.private.shows:
                buttons = [number for number, button in enumerate(shown.buttons) if _approves(button)]
                if buttons and self._due((chat, str(shown.id)), shown.text, now):
                    here.presses(shown, buttons[0])

    def _due(self, question: tuple[int, str], text: str, now: float) -> bool:
        """Say whether a question is to be answered now, for the first time or once more."""
        self.asked.setdefault(question, text)
        if now < self._pressed.get(question, now):
            return False
        self._pressed[question] = now + _AGAIN_SECONDS
        return True

    def _texts(self, chat: int) -> Iterator[tuple[str, str]]:
        here, there = self.people[chat // 2]
        if chat % 2:
            yield from ((one.ts, one.text) for one in there.messages(there.dm()) if one.user != there.id)
        else:
            yield from ((str(one.id), one.text) for one in here.private.shows if one.by_bot)


def _approves(button: Json) -> bool:
    """Say whether a button of either platform approves: one has its text as such, the other in an object."""
    match button.get("text"):
        case {"text": text} | text:
            return text in _APPROVE


@asynccontextmanager
async def platforms(people: int) -> AsyncGenerator[Platforms]:
    """Play both platforms, with as many people on each."""
    async with telegram() as one, slack() as other:
        other.reach.patient, other.reach.again, other.reach.extra = False, (0.5,) * 200, 1
        made = Platforms(one, other, [(one.user(f"T{n}"), other.user(f"S{n}")) for n in range(people)])
        watching = asyncio.create_task(made.watch())
        try:
            yield made
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
