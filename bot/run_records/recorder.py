"""Who writes the records of runs: `RunRecorder.record` when a run ended, and when a gap of it did.

The worker sets a RECORD timer (`RunRecorder.expect`) before it writes the end of a run or of a gap, and calls `record`
behind it. If it dies between the two, the timer has another process do so. A record that stands is not written again.
"""

from typing import Final

RECORD_AFTER: Final = 30_000
"""In how many milliseconds a record that was expected is written by whoever sweeps timers."""


class RunRecorder:
    """Records runs in a repository that is cleared for `clearance`; a run above it leaves no trace there."""

    async def expect(self, sid: str) -> None:
        """Set the timer that has a run's record written, whatever becomes of this process. Raises StoreError."""
        raise NotImplementedError

    async def record(self, sid: str) -> None:
        """Write what is to be recorded of a run, settle its timer; do nothing where nothing is to be.

        It raises nothing but StoreError: where the repository cannot be written, the timer stays, and operators are
        told by the log.
        """
        raise NotImplementedError

    async def due(self, sid: str) -> bool:
        """Do what a RECORD timer that is due asks for; return whether it is settled. Raises StoreError."""
        raise NotImplementedError
