"""What one webhook keeps while its receiver takes nothing."""

from bot.webhooks.delivery import RetryTimes


def test_a_session_that_goes_on_waits_once() -> None:
    times = RetryTimes()
    times.put("other", 200.0)
    # Each change of a session has it looked at, and it is not its time yet.
    for change in range(1000):
        times.put("session", 100.0 + change % 3)
    assert len(times) == 2
    assert times.wait(40.0) == 60.0
    assert list(times.due(150.0)) == ["session"]
    assert times.wait(250.0) == 0.0
    assert list(times.due(250.0)) == ["other"]
    assert times.wait(250.0) is None


def test_a_session_is_tried_at_the_soonest_of_its_times() -> None:
    times = RetryTimes()
    times.put("session", 60.0)
    times.put("session", 1.0)
    assert list(times.due(1.0)) == ["session"]
    times.put("session", 70.0)
    assert list(times.due(60.0)) == []
    assert list(times.due(70.0)) == ["session"]
