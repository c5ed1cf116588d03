"""What the end of a turn means for its run, case by case."""

from dataclasses import replace

import pytest

from bot.runs import loop
from bot.runs.loop import NextStep, RunNewsKind, TurnOutcome
from bot.sessions.background.run_states import Breaker, EndReason, GapReason, RunStatus, RunType
from bot.sessions.background.runs import Charter, Gap, Progress
from bot.sessions.limits import RunLimits

LIMITS = RunLimits(turns=10, failures=3, cool_down=600_000)
RUN = Charter("r_1", RunType.AUTONOMOUS, deadline=10_000_000, slot="r_1", asker="owner")
MANUAL = replace(RUN, type=RunType.MANUAL)
BEGUN = Progress(initialized_at=5, completed=2, failed=1, turns=3)
STARTED, NOW = 1_000, 2_000
DONE = TurnOutcome(started_at=STARTED, consecutive=0, in_order=True)
ERROR = replace(DONE, in_order=False)


def after(progress: Progress = BEGUN, turn: TurnOutcome = DONE, charter: Charter = RUN) -> NextStep:
    return loop.after(charter, progress, turn, now=NOW, limits=LIMITS)


def test_an_autonomous_run_goes_on_by_itself() -> None:
    following = after()
    assert following.step.progress == replace(BEGUN, turns=4)
    assert following.step.continuation == (
        "Turn 4 of this run has ended. Tasks: 2 completed, 1 failed, 0 skipped."
        " Go on with the goal. Call `steering_heartbeat` first: steering notes may wait."
    )
    assert (following.news, following.probe_at) == (None, 0)


def test_a_message_to_a_run_whose_breaker_is_open_leaves_it_open() -> None:
    waits = replace(BEGUN, breaker=Breaker.OPEN, opened_at=NOW - 1, trips=2, status=RunStatus.PAUSED, consecutive=4)
    said = after(waits, replace(DONE, consecutive=4))
    assert (said.news, said.step.continuation) == (None, "")
    assert (said.step.progress.trips, said.step.progress.status) == (2, RunStatus.PAUSED)
    # A try of its timer that came during this turn is made up for.
    assert said.probe_at == NOW - 1 + 2 * LIMITS.cool_down
    assert after(waits, replace(ERROR, consecutive=4)).step.progress.trips == 3


def test_a_continuation_goes_as_far_as_the_run_itself() -> None:
    assert after(charter=replace(RUN, hops=4)).step.hops == 4


def test_a_manual_run_waits_for_what_it_is_told() -> None:
    assert after(charter=MANUAL).step.continuation == ""
    assert after(charter=MANUAL).step.progress.ended_at == 0
    assert after(Progress(), charter=MANUAL).step.progress.ended_at == 0


@pytest.mark.parametrize(
    "progress, turn, reason",
    [
        (replace(BEGUN, status=RunStatus.STOPPED), DONE, EndReason.COMPLETED),
        (replace(BEGUN, status=RunStatus.STOPPED), replace(ERROR, stopped=True), EndReason.STOPPED),
        (BEGUN, replace(ERROR, stopped=True), EndReason.STOPPED),
        (BEGUN, replace(ERROR, late=True), EndReason.DEADLINE),
        (BEGUN, replace(ERROR, spent=True), EndReason.LIMIT),
        (replace(BEGUN, turns=9), DONE, EndReason.LIMIT),
        (BEGUN, replace(ERROR, hopeless=True), EndReason.FAILED),
        (replace(BEGUN, aborting=STARTED), DONE, EndReason.ABORTED),
        (replace(BEGUN, aborting=STARTED), ERROR, EndReason.ABORTED),
        (Progress(), DONE, EndReason.NOT_INITIALIZED),
        (Progress(), replace(DONE, taken=True), EndReason.SLOT_LOCKED),
    ],
)
def test_a_run_ends_for_one_reason(progress: Progress, turn: TurnOutcome, reason: EndReason) -> None:
    following = after(progress, turn)
    ended = following.step.progress
    assert (ended.reason, ended.ended_at, ended.status, ended.turns) == (
        reason,
        NOW,
        RunStatus.STOPPED,
        progress.turns + 1,
    )
    assert (following.step.continuation, following.news, following.probe_at) == ("", RunNewsKind.ENDED, 0)


def test_a_run_ends_at_its_deadline_whatever_its_turn_did() -> None:
    assert after(charter=replace(RUN, deadline=NOW)).step.progress.reason is EndReason.DEADLINE
    assert after(charter=replace(RUN, deadline=NOW + 1)).step.progress.reason is None


def test_a_run_whose_slot_is_taken_ends_though_it_is_manual() -> None:
    assert after(Progress(), replace(DONE, taken=True), MANUAL).step.progress.reason is EndReason.SLOT_LOCKED


def test_a_run_that_is_told_to_end_has_a_whole_turn_for_that() -> None:
    following = after(replace(BEGUN, aborting=STARTED + 1))
    assert following.step.progress.ended_at == 0
    assert following.step.continuation.endswith(loop.END)


def test_an_error_before_it_was_initialized_leaves_it_another_try() -> None:
    following = after(Progress(), ERROR)
    assert (following.step.progress.ended_at, following.step.progress.consecutive) == (0, 1)
    assert following.step.continuation.endswith(loop.INITIALIZE)


def test_a_turn_that_ends_in_an_error_counts_as_a_failure_and_may_open_the_breaker() -> None:
    assert after(replace(BEGUN, consecutive=2), ERROR).step.progress.breaker is Breaker.CLOSED
    following = after(replace(BEGUN, consecutive=3), ERROR)
    paused = following.step.progress
    assert (paused.breaker, paused.status, paused.opened_at) == (Breaker.OPEN, RunStatus.PAUSED, NOW)
    assert paused.gaps == (Gap(NOW, 0, GapReason.BREAKER),)
    assert (following.step.continuation, following.news) == ("", RunNewsKind.TRIPPED)
    assert following.probe_at == NOW + LIMITS.cool_down


def test_what_an_operator_must_mend_pauses_a_run_and_counts_as_no_failure() -> None:
    following = after(BEGUN, replace(ERROR, mend=True))
    assert (following.step.progress.breaker, following.step.progress.consecutive) == (Breaker.OPEN, 0)
    assert (following.step.continuation, following.news) == ("", RunNewsKind.MEND)


def test_a_turn_that_tries_again_closes_the_breaker_and_its_gap() -> None:
    waiting = replace(BEGUN, consecutive=4, breaker=Breaker.HALF_OPEN, gaps=(Gap(10, 0, GapReason.BREAKER),))
    following = after(waiting, replace(DONE, consecutive=4))
    assert following.step.progress.breaker is Breaker.CLOSED
    assert following.step.progress.gaps == (Gap(10, STARTED, GapReason.BREAKER),)
    assert following.step.continuation


def test_it_tries_again_by_its_deadline_at_the_latest() -> None:
    short = replace(RUN, deadline=NOW + 5)
    assert after(replace(BEGUN, consecutive=4), charter=short).probe_at == NOW + 5


def test_a_run_that_pauses_itself_waits_and_says_so() -> None:
    following = after(replace(BEGUN, status=RunStatus.PAUSED))
    assert (following.step.continuation, following.news) == ("", RunNewsKind.PAUSED)
    assert following.step.progress.gaps == (Gap(NOW, 0, GapReason.PAUSED),)


def test_of_many_gaps_the_last_ones_are_kept() -> None:
    gaps = tuple(Gap(n, n + 1, GapReason.CRASH) for n in range(loop.MOST_GAPS))
    kept = after(replace(BEGUN, gaps=gaps), replace(DONE, gaps=(Gap(500, 600, GapReason.WAITING),))).step.progress.gaps
    assert (len(kept), kept[0].since, kept[-1]) == (loop.MOST_GAPS, 1, Gap(500, 600, GapReason.WAITING))


def test_what_the_runtime_says_tells_of_the_run_alone() -> None:
    assert "4 failures in a row" in loop.probe(replace(BEGUN, consecutive=4))
    assert loop.resumed(BEGUN).endswith(loop.GO_ON)
