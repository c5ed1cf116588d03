"""The text of a picture, `docs/pictures/*.toml`, read and checked.

Lengths are in pixels. `at` of a box is left, top, width and height. A line of text that begins with `# ` is a heading,
and words in backticks are code. An arrow's ends name a box and one of its sides, perhaps with pixels along that side:
`gate.right`, `gate.bottom-40`.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Pixels = tuple[int, int]
Area = tuple[int, int, int, int]
Kind = Literal["plain", "gate", "person", "public", "internal", "confidential", "restricted", "quiet"]
End = Annotated[str, Field(pattern=r"^[a-z0-9_]+\.(left|right|top|bottom)([+-][0-9]+)?$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Box(_Part):
    """A box with text in it.

    Args:
        name: by which arrows find it.
        at: where it is.
        lines: its text.
        kind: its colours; those of a level, of the gate, of people, or of what stands behind others (`quiet`).
        dashed: whether its border is dashed, as that of held and UNTRUSTED data is.
        align: where lines begin: in the middle, or on the left, and then at the top.
    """

    name: str
    at: Area
    lines: tuple[str, ...] = ()
    kind: Kind = "plain"
    dashed: bool = False
    align: Literal["middle", "start"] = "middle"


class Arrow(_Part):
    """An arrow between two boxes.

    Args:
        start: where it begins.
        end: where it leads.
        via: the corners on its way.
        text: what is written at its longest part.
        refused: whether it leads nowhere: it ends with a cross.
        dashed: whether it is a way back or a reference.
        shift: how far the text is moved, to the right and down.
    """

    start: End
    end: End
    via: tuple[Pixels, ...] = ()
    text: str = ""
    refused: bool = False
    dashed: bool = False
    shift: Pixels = (0, 0)


class Note(_Part):
    """Text beside the boxes.

    Args:
        at: the left end of its first line.
        lines: the text.
        align: whether `at` is the left end or the middle of each line.
    """

    at: Pixels
    lines: tuple[str, ...]
    align: Literal["middle", "start"] = "start"


class Picture(_Part):
    """A whole picture.

    Args:
        title: shown at the top, and read out as the picture's name.
        description: read out to people who do not see the picture.
        size: width and height.
        box: later boxes are drawn over earlier ones.
        arrow: drawn over the boxes.
        note: drawn last.
    """

    title: str
    description: str
    size: Pixels
    box: tuple[Box, ...]
    arrow: tuple[Arrow, ...] = ()
    note: tuple[Note, ...] = ()


def read(path: Path) -> Picture:
    """Return the picture that a file tells.

    Raises:
        OSError: the file cannot be read.
        tomllib.TOMLDecodeError: the file is not TOML.
        pydantic.ValidationError: the file has another shape.
    """
    return Picture.model_validate(tomllib.loads(path.read_text("utf-8")))
