"""The limits of a session: the length of a turn, the turns in a row without a person, and the tokens.

A session's agent sets its limits, or else the configuration does. The opener of a turn is given them, and that one
value bounds everything the turn does.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits of a session; None for no limit.

    Args:
        tokens: How many tokens models may read and write in one generation.
        turn_seconds: For how many seconds a turn may be worked; waiting for people, or for a worker, does not count.
        turns: How many turns in a row may end without a person's message.
    """

    tokens: int | None
    turn_seconds: int
    turns: int | None


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of runs.

    Args:
        hours: The longest life of a run, in hours.
        turns: The most turns of a run.
        live: How many runs of one principal and level may be live at a time.
        failures: The breaker opens after more than this many failures in a row.
        cool_down: The first pause of an open breaker, in milliseconds.
    """

    hours: int = 24
    turns: int = 500
    live: int = 50
    failures: int = 3
    cool_down: int = 600_000


@dataclass(frozen=True, slots=True)
class TokenAllowance:
    """The token budget of a session as a turn uses it, valid only for the holder of one claim.

    Args:
        sid: The session.
        generation: The generation it counts for.
        fence: The fence of the claim.
        tokens: The most tokens in this generation.
    """

    sid: str
    generation: int
    fence: int
    tokens: int
