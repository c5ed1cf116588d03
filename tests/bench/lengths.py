"""A turn in a log of 100, 1,000 and 10,000 events, no recap in any of them: the longest context that there is.

The logs are written by the store's own writes, shaped as turns are, and are not measured. Each is then talked to in
turn, through the whole application with an instant model. The clock stops when the answer is handed to the channel.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bot.core.ids import Ids
from bot.sessions.log.event_types import AgentMessage, EventBody, TurnCompleted, TurnStarted, UserMessage, YieldReason
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.models import Write
from bot.store.redis_store import RedisStore
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bench.measure import Row, by_turns_async, ratio_at_most
from tests.bench.rig import ANSWER, Bench, bench

_SIZES: Final = (100, 1_000, 10_000)
_ROUNDS: Final = 40
_WARM: Final = 5
_CHUNK: Final = 400
_IDS: Final = Ids()
_ASKED: Final = "When is the meeting?"


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        short, middle, long = [taken * 1e3 for taken in asyncio.run(_measured(Path(folder)))]
    yield Row("turn_1k_events", middle, "ms", short, ratio_at_most(1.3))
    yield Row("turn_10k_events", long, "ms", short, ratio_at_most(1.3))


async def _measured(folder: Path) -> list[float]:
    async with bench(folder) as lockgate:
        talks = [await _talk(lockgate, size) for size in _SIZES]
        await by_turns_async(*talks, rounds=_WARM)
        return await by_turns_async(*talks, rounds=_ROUNDS)


async def _talk(lockgate: Bench, size: int) -> Callable[[], Awaitable[float]]:
    thread = f"log{size}"
    await lockgate.ask(_ASKED, thread)
    await fill(lockgate.app.store, lockgate.app.session_id(Address("console", "owner", thread=thread)), size)
    return lambda: lockgate.ask(_ASKED, thread)


async def fill(store: RedisStore, sid: str, size: int) -> None:
    """Write turns into a session's log until it has `size` events."""
    state = await store.sessions.state(sid)
    number = 0
    while state is not None and state.seq < size:
        claim = await store.sessions.claim(sid, _IDS.owner(), idle=True)
        if claim is None:
            raise RuntimeError("an idle session could not be claimed")
        written = list[NewEvent]()
        while len(written) < min(_CHUNK, size - state.seq):
            written += _turn(f"t{number}")
            number += 1
        await store.sessions.record(claim, Write(_IDS.op(), claim.state.seq, events=tuple(written), release=True))
        state = await store.sessions.state(sid)


def _turn(turn: str) -> tuple[NewEvent, ...]:
    def told(body: EventBody) -> NewEvent:
        return NewEvent("worker", PUBLIC, body, Visibility.PROGRESS, turn=turn)

    def said(actor: str, body: EventBody) -> NewEvent:
        return NewEvent(actor, PUBLIC, body, Visibility.USER, admitted=True, turn=turn)

    return (
        told(TurnStarted(1)),
        said("owner", UserMessage(_ASKED)),
        said("agent", AgentMessage(ANSWER)),
        told(TurnCompleted(YieldReason.COMPLETED)),
    )
