"""Law `no_read_up` for streams: a program is told what it may know, once, and of a rise one constant.

A plan is drawn: what a worker writes, at which labels and in how many steps, when the session begins anew, when streams
break. It is played twice, with different secrets and a different number of them where the reader may not know how many.
What the reader gets must be byte for byte the same, and the same as a few lines say here.
"""

import asyncio
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx2
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bot.sessions.api_tokens import Scope
from bot.sessions.log.events import NewEvent, Visibility
from policy.labels import Label, join_all, parse
from tests.bot.api.kit import ApiHost, api_config, served
from tests.bot.api.listening import Listener, Scribe, said, store_of

LABELS: Final = tuple(map(parse, ("PUBLIC", "PUBLIC~", "INTERNAL", "CONFIDENTIAL~", "RESTRICTED~")))
CLEARANCES: Final = ("PUBLIC~", "INTERNAL~", "CONFIDENTIAL~")
END: Final = 'event: end\ndata: {"reason":"unavailable"}\n\n'
_QUIET: Final = api_config(
    settings={"heartbeat_seconds": 600, "requests_per_minute": 1_000_000, "most_streams": 100_000}
)


@dataclass(frozen=True)
class Written:
    """A step of a worker: events of these labels and levels."""

    labels: tuple[Label, ...]
    levels: tuple[Visibility, ...]


@dataclass(frozen=True)
class Reset:
    """The session begins anew."""


@dataclass(frozen=True)
class Broken:
    """The streams break and are asked for again."""


Step = Written | Reset | Broken


@st.composite
def _written(draw: st.DrawFn) -> Written:
    labels = draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=3))
    levels = draw(st.lists(st.sampled_from(Visibility), min_size=len(labels), max_size=len(labels)))
    return Written(tuple(labels), tuple(levels))


PLANS: Final = st.lists(st.one_of(_written(), _written(), st.just(Broken()), st.just(Reset())), min_size=1, max_size=10)


@dataclass
class Expected:
    """What a reader of a clearance is told, as a few lines say it."""

    reader: Label
    taint: Label = LABELS[0]
    told: list[int] = field(default_factory=list[int])
    ended: bool = False

    def write(self, step: Written, last: int) -> None:
        """A step that leaves the session above the reader ends the stream, and nothing of it is told."""
        self.taint = join_all(step.labels, self.taint)
        self.ended = self.ended or not self.taint.flows_to(self.reader)
        if not self.ended:
            first = last - len(step.levels) + 1
            self.told += [first + n for n, level in enumerate(step.levels) if level is not Visibility.INTERNAL]

    def reset(self, seq: int) -> None:
        """A new generation is known to all who may know of the session again."""
        self.taint, self.ended = LABELS[0], False
        self.told.append(seq)


@dataclass
class Play:
    """One run of a plan: `flavour` is what makes its secrets other than those of another run."""

    host: ApiHost
    client: httpx2.AsyncClient
    reader: Label
    name: str
    flavour: int

    async def run(self, plan: list[Step]) -> str:
        """Play a plan, hold the reader against what is expected, and return what it got."""
        scribe = await Scribe.begun(store_of(self.host), self.name)
        expected, one = Expected(self.reader), Listener(self.client, scribe.sid)
        await one.connect()
        for step in plan:
            match step:
                case Written():
                    expected.write(step, await scribe.write(*self._events(step, expected)))
                case Reset():
                    ended = expected.ended
                    await scribe.reset()
                    expected.reset(scribe.seq - 1)
                    if ended:
                        await one.connect()
                case Broken():
                    await one.leave()
                    await one.connect()
            await _settled(one, expected)
        if expected.ended:
            # How much a session reads above a reader changes nothing for them.
            await scribe.write(*[said(f"secret {self.flavour}", LABELS[-1])] * self.flavour)
            assert (await self.client.get(f"/v1/sessions/{scribe.sid}/events")).status_code == HTTPStatus.NOT_FOUND
        await one.leave()
        return re.sub(r'"ts":\d+', "", one.raw.decode().replace(scribe.sid, "SID"))

    def _events(self, step: Written, before: Expected) -> list[NewEvent]:
        hidden = before.ended or not join_all(step.labels, before.taint).flows_to(before.reader)
        return [
            said(f"secret {self.flavour}" if hidden or level is Visibility.INTERNAL else "known", label, level)
            for label, level in zip(step.labels, step.levels, strict=True)
        ]


async def _settled(one: Listener, expected: Expected) -> None:
    """Wait until a reader was told what is expected, and find that it is that and no more."""
    if expected.ended:
        await one.until(lambda: bool(one.end) or one.status == HTTPStatus.NOT_FOUND)
        assert one.status == HTTPStatus.NOT_FOUND or one.end == "unavailable"
    else:
        await one.until(lambda: len(one.told) >= len(expected.told))
        assert not one.end
    assert one.seqs == expected.told


@contextmanager
def _stage() -> Generator[tuple[asyncio.Runner, ApiHost, dict[str, str]]]:
    """Yield an API with a token for each clearance, which serves for all plans."""
    with TemporaryDirectory() as folder, asyncio.Runner() as runner:
        serving = served(Path(folder), _QUIET, works=False)
        host = runner.run(serving.__aenter__())
        tokens = {
            clearance: runner.run(host.token(f"reader-{n}", Scope.READ, clearance))
            for n, clearance in enumerate(CLEARANCES)
        }
        try:
            yield runner, host, tokens
        finally:
            runner.run(serving.__aexit__(None, None, None))


def test_a_stream_tells_what_its_reader_may_know_and_of_a_rise_one_constant() -> None:
    with _stage() as (runner, host, tokens):

        async def both(plan: list[Step], clearance: str) -> None:
            name = f"reader-{CLEARANCES.index(clearance)}"
            async with host.client(tokens[clearance]) as client:
                first, second = [
                    await Play(host, client, parse(clearance), name, flavour).run(plan) for flavour in (1, 3)
                ]
            assert first == second
            assert "secret" not in first
            assert first.count("event: end") == first.count(END)

        @settings(
            max_examples=30,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(PLANS, st.sampled_from(CLEARANCES))
        def law(plan: list[Step], clearance: str) -> None:
            runner.run(both(plan, clearance))

        law()
