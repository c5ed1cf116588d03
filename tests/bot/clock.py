"""Time as a test wants it."""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class Hurried:
    """A clock on which every wait is over at once."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 100
        return self.now

    def wall_ms(self) -> int:
        return 0
