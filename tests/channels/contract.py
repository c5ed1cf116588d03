"""What every adapter owes: subclass `ChannelContract`, give it an adapter and what its platform shows.

Beside it what tests of adapters share: a stage, a vault, and a wait.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from channels.messages import Address, Outbound, OutboundKind, Signal
from channels.port import Channel, ChannelError, VaultError

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


async def until(holds: Callable[[], object], seconds: float = 8.0) -> None:
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

    @pytest.mark.parametrize("text", ["", "\x00", "\x1b]0;x\x07", "\ud800", "a\u202eb", "x" * 1_000_000, "*_`<&>"])
    async def test_any_text_can_be_sent(self, stage: Stage, text: str) -> None:
        await stage.channel.send(Outbound(stage.home, text, "k1"))
        shown = stage.shown()
        assert not set(shown) & set("\x00\x07\ud800\u202e")
