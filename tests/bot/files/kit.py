"""Steps that tests of labelled files share, wherever the files are kept."""

from bot.files.locations import FileLocation
from bot.files.port import LabelledFiles, keep_text, text_of
from policy.labels import Label
from tests.bot.kit import DIRTY, TOP


def write(root: LabelledFiles, place: FileLocation, text: str, label: Label) -> None:
    """Write as the tool does for a session that has read this."""
    keep_text(root, place, text, label)


def met(root: LabelledFiles, place: FileLocation, reader: Label = TOP) -> tuple[str, Label]:
    """Return the file of a name that a reader meets, with its label."""
    found = root.find(place, reader)
    assert found is not None
    return text_of(root, found.place), found.label


def tilde(label: Label) -> Label:
    """Return a label as it is read from a folder that is UNTRUSTED, as the shipped ones are."""
    return label.join(DIRTY)
