"""A policy that blocks after hours: an operator writes the rule, puts it in force, and takes it back."""

import signal
from datetime import UTC, datetime, timedelta

import pytest

from tests.journeys.machine import Machine

CALL = b'!message {"channel": "console", "recipient": "owner", "text": "see you tomorrow"}\n'


def config(begins: timedelta) -> str:
    """Return a policy that blocks messages for four hours, which begin so long from now."""
    now = datetime.now(UTC)
    start, stop = now + begins, now + begins + timedelta(hours=4)
    return (
        "policy:\n  rules:\n    - id: nothing-after-hours\n      hook: PRE_TOOL_CALL\n      tools: [message]\n"
        f'      schedule: {{from: "{start:%H:%M}", to: "{stop:%H:%M}", zone: UTC}}\n'
        "      action: BLOCK\n      message: nothing is sent after hours\n"
    )


@pytest.mark.parametrize("by_signal", [False, True])
def test_a_policy_that_blocks_after_hours(machine: Machine, *, by_signal: bool) -> None:
    file = machine.folder / "config.yaml"
    file.write_text(config(timedelta(hours=6)))
    with machine.start("chat") as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def tell(line: bytes, expected: str) -> None:
            """Type a line and read until something is said."""
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line)
            process.stdin.flush()
            while expected not in (said := process.stdout.readline().decode()):
                assert said, f"{expected!r} was not said"

        def reload(expected: str) -> None:
            if by_signal:
                process.send_signal(signal.SIGHUP)
            tell(b"" if by_signal else b"/policy reload\n", expected)

        # The office is open: the rule rests.
        tell(CALL, "see you tomorrow")
        # The hours are changed, with a mistake first: nothing changes.
        file.write_text(config(timedelta(hours=-2)).replace("zone: UTC", "zone: UTCC"))
        reload("unknown time zone `UTCC`")
        tell(CALL, "see you tomorrow")
        # Then as they should be: it is after hours now.
        file.write_text(config(timedelta(hours=-2)))
        reload("is in force")
        tell(CALL, "nothing is sent after hours")
        # And back.
        file.write_text(config(timedelta(hours=6)))
        reload("is in force")
        tell(CALL, "see you tomorrow")
        process.stdin.close()
        assert process.wait(timeout=60) == 0
