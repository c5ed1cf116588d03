"""The parts of a record: named fields, each with its default."""

from dataclasses import dataclass
from typing import Final, TypeAlias

Value: TypeAlias = str | int | bool

VERSION: Final = "version"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record: its name, its default, and its meaning.

    A type in place of the default says that there is none: a record without the field cannot be read.
    """

    name: str
    default: Value | type[Value]
    meaning: str

    @property
    def type(self) -> type[Value]:
        """The type of its values."""
        return self.default if isinstance(self.default, type) else type(self.default)


@dataclass(frozen=True, slots=True)
class RecordType:
    """A kind of record. One that is `inside` another has no version of its own."""

    name: str
    fields: tuple[Field, ...]
    inside: bool = False


_VERSION: Final = Field(VERSION, int, "the schema it was written by")


def record(name: str, *fields: Field) -> RecordType:
    """Return a kind of record of its own, with a version: that of the schema it is written by."""
    return RecordType(name, (_VERSION, *fields))


def part(name: str, *fields: Field) -> RecordType:
    """Return a kind of record that is inside another one."""
    return RecordType(name, fields, inside=True)
