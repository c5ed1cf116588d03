"""The channel of programs: each reads what is said to it in the session's log, and nobody else reads there."""

import pytest

from channels.api import Api
from channels.messages import Address, Outbound, Signal
from channels.port import Audience, Channel

pytestmark = pytest.mark.anyio

HOME = Address("api", "ci", thread="k:1")


async def test_a_program_alone_reads_at_its_address_whatever_the_thread() -> None:
    assert await Api().audience(HOME) == Audience.of("api:ci")


async def test_nothing_is_sent_and_nothing_fails() -> None:
    channel: Channel = Api()
    outbound = Outbound(HOME, "hello", "k1")
    assert await channel.send(outbound) == ""
    await channel.preview(outbound)
    await channel.signal(HOME, Signal.WORKING)
    assert not channel.previews
    assert not channel.marks_repeats
