"""The contract of adapters: subclass `ChannelContract`, and `ListeningContract` for one that listens (`Platform`).

`docs/writing-a-channel.md` shows both for a channel of one's own. A class gives its fixture a `Stage` or a `Listener`.

Beside it what tests of adapters share: a stage, a vault, and a wait.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

import anyio
import pytest

from channels.messages import FROM_OUTSIDE, Address, Event, Inbound, Outbound, OutboundKind, Signal
from channels.port import AmbiguousSendError, Channel, ChannelError, Platform, VaultError

pytestmark = pytest.mark.anyio


class Stage(ABC):
    """An adapter with its platform played: what tests of the contract need of both."""

    channel: Channel
    home: Address
    """Somewhere the adapter can speak."""
    nowhere: Address
    """Somewhere of the same channel where it cannot."""
    finds: bool = False
    """Whether the adapter looks for what may have been said, and does not say again what it finds."""

    @abstractmethod
    def shown(self) -> str:
        """Return all that people have seen so far."""

    @abstractmethod
    def vanish(self) -> None:
        """Make the platform unable to take anything."""

    @abstractmethod
    def refuse_files(self) -> None:
        """Make the platform take texts and no files, where it takes files at all."""

    @abstractmethod
    def lose_answer(self) -> bool:
        """Make the platform show the next text and cut the connection before it answers.

        Returns: whether that can happen at all; False only where no network lies between the adapter and its readers.
        """

    @abstractmethod
    def shared_chat(self, count: int) -> "SharedChat | None":
        """Return a new shared chat of so many people, None where the platform has private chats only."""


@dataclass(frozen=True)
class SharedChat:
    """A shared chat as the platform knows it, without the adapter: its address, people, and public texts."""

    address: Address
    accounts: tuple[str, ...]
    """All people who read there, each as `channel:id`."""
    public: Callable[[], str]
    """Returns the texts that all of them see."""


class Leases:
    """Rights that one holder of this loop has at a time; `lost` takes them away, `broken` refuses them."""

    def __init__(self) -> None:
        self.lost = False
        self.broken = False
        self.asked: list[str] = []
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncGenerator[Callable[[], bool]]:
        self.asked.append(name)
        if self.broken:
            raise OSError("the store is away")
        async with self._locks[name]:
            yield lambda: not self.lost


class Kept:
    """A vault of this process; `broken` makes it unable to answer, `full` unable to park anything."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.broken = False
        self.full = False

    @property
    def parked(self) -> list[str]:
        return sorted(name for name in self.values if "/parked/" in name)

    async def get(self, name: str) -> bytes | None:
        self._answers()
        return self.values.get(name)

    async def put(self, name: str, value: bytes, seconds: float | None = None) -> None:
        await self.swap(name, self.values.get(name), value, seconds)

    async def swap(self, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None) -> bool:
        self._answers()
        if self.full and "/parked/" in name:
            raise VaultError("the store is full")
        assert seconds is None or seconds > 0
        if self.values.get(name) != old:
            return False
        self.values.pop(name, None)
        self.values |= {} if new is None else {name: new}
        return True

    async def delete(self, name: str) -> None:
        self._answers()
        self.values.pop(name, None)

    async def names(self, prefix: str) -> tuple[str, ...]:
        self._answers()
        return tuple(sorted(name for name in self.values if name.startswith(prefix)))

    def _answers(self) -> None:
        if self.broken:
            raise VaultError("the store does not answer")


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something holds."""
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - it is no event of anything
            await anyio.sleep(0.01)


class ChannelContract(ABC):
    """The tests; `stage` gives a fresh stage."""

    @pytest.fixture
    @abstractmethod
    def stage(self) -> Stage:
        """Return a fresh stage."""

    async def test_its_addresses_bear_its_name(self, stage: Stage) -> None:
        assert stage.home.channel == stage.channel.name

    @pytest.mark.parametrize("kind", list(OutboundKind))
    async def test_what_is_sent_is_shown_once(self, stage: Stage, kind: OutboundKind) -> None:
        await stage.channel.send(Outbound(stage.home, "the tide turns at nine", "k1", kind))
        assert stage.shown().count("the tide turns at nine") == 1

    async def test_what_was_said_can_be_replaced_by_its_receipt_or_never(self, stage: Stage) -> None:
        receipt = await stage.channel.send(Outbound(stage.home, "which way", "k1"))
        if not receipt:
            with pytest.raises(ChannelError):
                await stage.channel.send(Outbound(stage.home, "that way", "k2", replaces="1"))
            assert "that way" not in stage.shown()
            return
        for _ in range(2):
            assert await stage.channel.send(Outbound(stage.home, "that way", "k2", replaces=receipt)) == receipt
        assert "which way" not in stage.shown()
        assert stage.shown().count("that way") == 1

    async def test_what_was_replaced_is_shown_when_it_is_sent_again(self, stage: Stage) -> None:
        receipt = await stage.channel.send(Outbound(stage.home, "which way", "k1"))
        if receipt:
            await stage.channel.send(Outbound(stage.home, "that way", "k2", replaces=receipt))
            assert await stage.channel.send(Outbound(stage.home, "which way", "k1", repeated=True)) != receipt
            assert "which way" in stage.shown()

    async def test_what_never_was_said_is_not_said_anew_in_its_place(self, stage: Stage) -> None:
        with pytest.raises(ChannelError):
            await stage.channel.send(Outbound(stage.home, "late", "k1", replaces="none of its receipts"))
        assert "late" not in stage.shown()

    async def test_texts_are_shown_in_the_order_they_were_sent(self, stage: Stage) -> None:
        for place, word in enumerate(("first", "second", "third")):
            await stage.channel.send(Outbound(stage.home, word, f"k{place}"))
        shown = stage.shown()
        assert shown.index("first") < shown.index("second") < shown.index("third")

    async def test_a_repetition_is_marked_where_the_adapter_says_so(self, stage: Stage) -> None:
        await stage.channel.send(Outbound(stage.home, "once", "k1"))
        first = len(stage.shown())
        await stage.channel.send(Outbound(stage.home, "once", "k1", repeated=True))
        again = stage.shown()[first:]
        if stage.finds:
            assert again == ""
        elif stage.channel.marks_repeats:
            assert "once" in again
            assert again.strip() != "once"

    @pytest.mark.parametrize("lines", [1, 2_000])
    async def test_a_text_from_outside_is_marked_above_every_part_where_the_adapter_says_so(
        self, stage: Stage, lines: int
    ) -> None:
        if not stage.channel.marks_untrusted:
            return
        stage.refuse_files()
        words = "\n".join(f"w{number:05}" for number in range(lines))
        await stage.channel.send(Outbound(stage.home, words, "k1", OutboundKind.MESSAGE))
        plain = stage.shown()
        await stage.channel.send(Outbound(stage.home, words, "k2", OutboundKind.MESSAGE, untrusted=True))
        marked = stage.shown()[len(plain) :]
        assert FROM_OUTSIDE not in plain
        assert marked.index(FROM_OUTSIDE) < marked.index("w00000")
        assert len(re.findall(r"w\d{5}", marked)) == lines

    async def test_a_text_whose_answer_was_lost_is_not_said_again_at_once(self, stage: Stage) -> None:
        if not stage.lose_answer():
            return
        # Another ChannelError would claim that nobody saw the text.
        with suppress(AmbiguousSendError):
            await stage.channel.send(Outbound(stage.home, "the tide turns at nine", "k1"))
        assert stage.shown().count("the tide turns at nine") == 1

    @pytest.mark.parametrize("lines", [8_000, 60_000])
    async def test_a_text_that_may_not_be_a_file_is_said_all_the_same(self, stage: Stage, lines: int) -> None:
        stage.refuse_files()
        words = [f"w{number:05}" for number in range(lines)]
        await stage.channel.send(Outbound(stage.home, "\n".join(words), "k1"))
        shown = stage.shown()
        said = re.findall(r"w\d{5}", shown)
        assert said == words[: len(said)]
        assert len(said) > 8_000 or len(said) == lines
        # What is left out is said to be.
        assert (len(said) < lines) == ("the rest is left out" in shown)

    async def test_where_it_cannot_speak_it_says_so(self, stage: Stage) -> None:
        before = stage.shown()
        with pytest.raises(ChannelError):
            await stage.channel.send(Outbound(stage.nowhere, "lost", "k1"))
        assert stage.shown() == before

    async def test_a_platform_that_is_gone_is_a_channel_error(self, stage: Stage) -> None:
        stage.vanish()
        with pytest.raises(ChannelError):
            await stage.channel.send(Outbound(stage.home, "lost", "k1"))

    @pytest.mark.parametrize("signal", list(Signal))
    async def test_a_signal_says_nothing_durable(self, stage: Stage, signal: Signal) -> None:
        await stage.channel.signal(stage.home, signal)
        await stage.channel.send(Outbound(stage.home, "after", "k1"))
        assert "after" in stage.shown()

    async def test_an_audience_names_accounts_of_this_channel(self, stage: Stage) -> None:
        audience = await stage.channel.audience(stage.home)
        assert audience.readers
        assert all(reader.account.startswith(f"{stage.channel.name}:") for reader in audience.readers)

    @pytest.mark.parametrize("count", [2, 250])
    async def test_no_reader_of_a_shared_chat_is_left_out(self, stage: Stage, count: int) -> None:
        chat = stage.shared_chat(count)
        if chat is None:
            return
        assert len(set(chat.accounts)) == count
        audience = await stage.channel.audience(chat.address)
        assert audience.shared
        left_out = {*chat.accounts} - {reader.account for reader in audience.readers}
        assert not (audience.complete and left_out)

    async def test_a_text_for_one_reader_of_a_shared_chat_is_shown_to_no_other(self, stage: Stage) -> None:
        chat = stage.shared_chat(2)
        if chat is None:
            return
        alone = replace(chat.address, recipient=chat.accounts[0].rpartition(":")[2])
        with suppress(ChannelError):
            await stage.channel.send(Outbound(alone, "for your eyes", "k1"))
        assert "for your eyes" not in chat.public()
        await stage.channel.send(Outbound(chat.address, "for all eyes", "k2"))
        assert "for all eyes" in chat.public()

    @pytest.mark.parametrize("text", ["", "\x00", "\x1b]0;x\x07", "\ud800", "a\u202eb", "x" * 1_000_000, "*_`<&>"])
    async def test_any_text_can_be_sent(self, stage: Stage, text: str) -> None:
        await stage.channel.send(Outbound(stage.home, text, "k1"))
        shown = stage.shown()
        assert not set(shown) & set("\x00\x07\ud800\u202e")


class Listener(ABC):
    """An adapter with its platform played, and a person who has a private chat with the bot there."""

    channel: Platform

    @abstractmethod
    async def says(self, text: str, times: int = 1) -> None:
        """Have the person send one message, of which the platform tells so many times."""

    @abstractmethod
    async def again(self) -> None:
        """Have the platform tell again of each message that it was not told to be kept, and of no other.

        Where it does so by itself, as with long polling, there is nothing to do.
        """

    @abstractmethod
    async def restarted(self) -> Platform:
        """Return another adapter with the same vault and platform, as after a crash; the old one listens no more."""


class Ears:
    """The application, as adapters see it: `told` are the messages that it kept, `refusals` how many it will not.

    While it is `stuck`, it keeps nothing and does not return. `tried` counts all calls.
    """

    def __init__(self) -> None:
        self.told: list[Inbound] = []
        self.refusals = 0
        self.stuck = False
        self.tried = 0

    async def receive(self, event: Event) -> None:
        self.tried += 1
        if self.stuck:
            await anyio.sleep_forever()
        if self.refusals:
            self.refusals -= 1
            raise OSError("the store is away")
        if isinstance(event, Inbound):
            self.told.append(event)


@asynccontextmanager
async def listening(channel: Platform) -> AsyncGenerator[Ears]:
    """Have an adapter listen; it has begun when the block is entered."""
    ears, began = Ears(), asyncio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.serve, ears.receive, began.set)
        with anyio.fail_after(60):
            await began.wait()
        yield ears
        tasks.cancel_scope.cancel()


class ListeningContract(ABC):
    """The tests of the way in; `listener` gives a fresh one."""

    @pytest.fixture
    @abstractmethod
    def listener(self) -> Listener:
        """Return a fresh listener."""

    async def test_a_message_is_told_with_its_sender_and_its_place(self, listener: Listener) -> None:
        async with listening(listener.channel) as ears:
            await listener.says("the tide turns at nine")
            await until(lambda: ears.told)
        (inbound,) = ears.told
        assert inbound.text == "the tide turns at nine"
        assert inbound.account.startswith(f"{listener.channel.name}:")
        assert inbound.address.channel == listener.channel.name
        assert (inbound.authored, inbound.private, inbound.addressed) == (True, True, True)
        assert inbound.dedupe

    async def test_who_wrote_in_a_private_chat_is_who_reads_there(self, listener: Listener) -> None:
        async with listening(listener.channel) as ears:
            await listener.says("hello")
            await until(lambda: ears.told)
            audience = await listener.channel.audience(ears.told[0].address)
        assert {reader.account for reader in audience.readers} == {ears.told[0].account}

    async def test_the_address_of_a_private_chat_is_made_of_its_account(self, listener: Listener) -> None:
        async with listening(listener.channel) as ears:
            await listener.says("hello")
            await until(lambda: ears.told)
        (inbound,) = ears.told
        # The application writes to people at this address, also to those who never wrote.
        channel, *workspace, chat = inbound.account.split(":", 2)
        assert inbound.address.place == Address(channel, chat, *workspace)

    async def test_one_message_has_one_identity_however_often_it_comes(self, listener: Listener) -> None:
        async with listening(listener.channel) as ears:
            await listener.says("first", times=2)
            await listener.says("second")
            await until(lambda: {inbound.text for inbound in ears.told} == {"first", "second"})
        identities = {(inbound.text, inbound.identity) for inbound in ears.told}
        assert len(identities) == len({identity for _, identity in identities}) == 2

    async def test_a_message_that_was_not_kept_is_told_again(self, listener: Listener) -> None:
        async with listening(listener.channel) as ears:
            ears.refusals = 1
            await listener.says("hello")
            await until(lambda: ears.tried)
            await listener.again()
            await until(lambda: ears.told)
        assert {inbound.text for inbound in ears.told} == {"hello"}
        assert len({inbound.identity for inbound in ears.told}) == 1

    @pytest.mark.parametrize("refused", [False, True])
    async def test_a_message_that_was_not_kept_before_a_crash_is_told_after_it(
        self,
        listener: Listener,
        refused: bool,  # noqa: FBT001 - a parameter of a test
    ) -> None:
        async with anyio.create_task_group() as people:
            async with listening(listener.channel) as ears:
                ears.stuck, ears.refusals = not refused, 1_000_000
                people.start_soon(listener.says, "hello")
                await until(lambda: ears.tried)
            assert not ears.told
            async with listening(await listener.restarted()) as ears:
                await listener.again()
                await until(lambda: ears.told)
            assert {inbound.text for inbound in ears.told} == {"hello"}
            # The first process may have left the platform without an answer.
            people.cancel_scope.cancel()
