"""Clocks that differ: the finding of the doctor, and the log of a running process."""

import logging
from collections.abc import Sequence

import pytest

from bot.operations.diagnostics import Diagnosis, compared, line
from bot.operations.processes.clocks import APART, ClockWatch
from bot.sessions.installation.clocks import NodeClock, difference

pytestmark = pytest.mark.anyio

STEP = "type `timedatectl set-ntp true` on both machines"


@pytest.mark.parametrize(
    "clocks, told",
    [
        ((NodeClock("", 1_900),), "ok    clocks"),
        (
            (NodeClock("", 90_000),),
            f"mend  clocks: the clock of the store is 90 s ahead of that of this machine, {STEP}",
        ),
        (
            (NodeClock("", -5_000),),
            f"mend  clocks: the clock of this machine is 5 s ahead of that of the store, {STEP}",
        ),
        (
            (NodeClock("h:1", -4_000), NodeClock("h:2", 3_000)),
            "mend  clocks: the clock of the store's server `h:2` is 7 s ahead of that of the store's server `h:1`, "
            + STEP,
        ),
        ((NodeClock("h:1", 0), NodeClock("h:2", 0)), "ok    clocks, 2 servers compared"),
        ((), "ok    clocks, no server of the store told its time"),
    ],
)
def test_the_doctor_names_the_clocks_that_are_the_furthest_apart(clocks: Sequence[NodeClock], told: str) -> None:
    found: Diagnosis = compared(difference(clocks))
    assert line(found) == told


async def test_a_difference_is_logged_once_and_again_when_it_has_grown(caplog: pytest.LogCaptureFixture) -> None:
    ahead = 0

    async def clocks() -> tuple[NodeClock, ...]:
        return (NodeClock("", ahead),)

    watch, logged = ClockWatch(clocks), list[int]()
    caplog.set_level(logging.WARNING)
    for ahead in (0, 2_000, 2_500, 3_000, 4_400, 4_500, 6_400, 100, 2_600):
        caplog.clear()
        await watch.look()
        assert watch.seconds == ahead / 1000
        if any(record.message == APART for record in caplog.records):
            logged.append(ahead)
    assert logged == [2_500, 4_500, 2_600]
