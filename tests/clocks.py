"""How exactly tests compare moments of different clocks, and how long the leases are whose ends they wait for."""

from typing import Final

CLOCKS: Final = 5_000
"""Milliseconds by which what is left of a time may differ: each of two machines looks at its clock, and may stall."""

LEASE_SECONDS: Final = 5
"""The life of a session's lease where a test waits for its end: short, and yet kept when a machine stalls for 2 s."""
