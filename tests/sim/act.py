"""What the played provider does with one request."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Act:
    """An answer with text and calls (name, arguments as written), or a fault.

    `status` other than 200 refuses, with `retry_after`, `code` and `location`. `delay` is seconds before the first
    byte, `pause` between pieces. `hang` never answers, `murmur` says for ten seconds that it is still there before it
    does. `cut` ends the stream after that many pieces, with a broken
    connection or, if `clean`, as if it were complete. `broken` sends what is no JSON. `native` runs a tool of the
    provider's.
    """

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    status: int = 200
    retry_after: str = ""
    code: str = ""
    delay: float = 0
    pause: float = 0
    hang: bool = False
    murmur: bool = False
    cut: int | None = None
    clean: bool = False
    broken: bool = False
    native: bool = False
    usage: bool = True
    model: str = ""
    finish: str = ""
    location: str = ""

    def words(self) -> list[str]:
        """Return the text in the pieces it is streamed in."""
        if len(self.text) > 10_000:
            return [self.text[start : start + 100_000] for start in range(0, len(self.text), 100_000)]
        return [word if number == 0 else f" {word}" for number, word in enumerate(self.text.split(" "))]
