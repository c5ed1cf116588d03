"""What Slack takes in one call, and what a reader can be asked to take."""

from typing import Final

TEXT: Final = 4_000
"""Of `text`, escaped, in UTF-16 units: what `chat.update` takes; `chat.postMessage` takes 40,000 and advises this."""

BLOCKS: Final = 12_000
"""Of all blocks of a message as JSON, in UTF-16 units: `msg_blocks_too_long` comes a little above that."""

ACTIONS: Final = 2_000
"""Of the blocks with buttons, as JSON in UTF-16 units, which what is written above them leaves free in `BLOCKS`."""

LABEL: Final = 75
"""Of a button's label, in characters."""

BLOCK_COUNT: Final = 50
"""Of blocks in one message."""

LINK: Final = 3_000
"""Of one address that is a link, in characters."""

PARTS: Final = 10
"""Of messages that an answer may be shown as; a longer one is easier to read as a file."""

INDENT: Final = 8
"""Of levels that a list may be indented by."""


def size(text: str) -> int:
    """Return the length of a text in UTF-16 units, the larger of the ways it might be counted."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def visible(text: str) -> bool:
    """Tell whether there is anything to see."""
    return any(character.isprintable() and not character.isspace() for character in text)
