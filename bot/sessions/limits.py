"""What bounds a session: how long a turn takes, how many turns run without a person, and how many tokens it uses.

A session's agent says what its limits are, or else the configuration does. Whoever opens a turn is given them, and
everything that the turn does is bounded by that one value.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits of a session; None for no limit.

    `tokens` is how many tokens models may read and write in one generation of it. `turn_seconds` is for how many
    seconds a turn may be worked: waiting for people, or for a worker, does not count. `turns` is how many turns may end
    in a row that no person's message is part of.
    """

    tokens: int | None
    turn_seconds: int
    turns: int | None


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What bounds runs.

    A run takes at most `hours` and `turns`. `live` is how many may go on at once of one principal and level. Its
    breaker opens when more than `failures` came in a row, for `cool_down` milliseconds at first.
    """

    hours: int = 24
    turns: int = 500
    live: int = 50
    failures: int = 3
    cool_down: int = 600_000


@dataclass(frozen=True, slots=True)
class TokenAllowance:
    """The token budget of a session as a turn uses it.

    At most `tokens` in this `generation`, and only for the holder of the claim with this `fence`.
    """

    sid: str
    generation: int
    fence: int
    tokens: int
