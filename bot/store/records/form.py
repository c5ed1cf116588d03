"""The form of a record: a flat MessagePack map of values that the server's own decoder reads without a loss.

These are texts, whole numbers below 2^53 and flags, under short names. A field with its default value is left out. A
nested value, such as a body or a list, is one opaque text that no script looks into. A reader ignores unknown fields,
and a script that rewrites a record keeps them.

No I/O here. A record that is not of this form raises ValueError, one of another version SchemaError.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs] - it has none

from bot.core.errors import SchemaError
from bot.sessions.models import SCHEMA
from bot.store.records.fields import VERSION, RecordType, Value
from bot.store.records.kinds import RECORDS
from bot.store.records.names import NAMES

Values: TypeAlias = Mapping[str, Value]

MOST: Final = 2**53
"""Whole numbers of a record are below this: larger ones are not exact in scripts."""

_LAYOUT: Final = MappingProxyType(
    {
        kind.name: tuple(
            (field.name, NAMES[field.name], field.type, None if isinstance(field.default, type) else field.default)
            for field in kind.fields
        )
        for kind in RECORDS
    }
)
"""Kind → name, stored name, type and default of each field, None for one that is required."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The layout of a kind: each field's name and type by its stored name; defaults by name, and by stored name."""

    fields: dict[str, tuple[str, type[Value]]]
    defaults: dict[str, Value]
    absent: dict[str, Value]


_KNOWN: Final = MappingProxyType(
    {
        kind: _Known(
            {short: (name, expected) for name, short, expected, _ in layout},
            {name: default for name, _, _, default in layout if default is not None},
            {short: default for _, short, _, default in layout if default is not None},
        )
        for kind, layout in _LAYOUT.items()
    }
)

# The library leaves its signatures untyped.
_PACKER: Final = cast("Any", msgpack).Packer(use_bin_type=False, unicode_errors="surrogatepass")

_packb: Final = cast("Callable[[object], bytes]", _PACKER.pack)
_unpackb: Final = cast("Callable[..., object]", cast("Any", msgpack).unpackb)


def pack_arguments(value: object) -> bytes:
    """Write the arguments of a script: maps, lists, texts, numbers and flags, in any nesting.

    Bytes are texts too, such as a record as it is stored. A name with None is absent for the script.
    """
    return _packb(value)


def pack(kind: RecordType, values: Values) -> bytes:
    """Write a record of this version; fields with their default are left out.

    Raises:
        ValueError: A number is too large.
        KeyError: The kind has no such field, or a required one is missing.
    """
    given = values if kind.inside else {VERSION: SCHEMA, **values}
    unknown = given.keys() - {field.name for field in kind.fields}
    if unknown:
        raise KeyError(min(unknown))
    written = dict[str, Value]()
    for name, stored, _, default in _LAYOUT[kind.name]:
        value = given[name] if default is None else given.get(name, default)
        if not isinstance(value, str) and value >= MOST:
            raise ValueError(f"`{name}` is too large for a record")
        if value != default:
            written[stored] = value
    return _packb(written)


def stored(values: Values) -> dict[str, Value]:
    """Return fields as they are stored, for a script to complete: zero, false and empty values are left out."""
    return {NAMES[name]: value for name, value in values.items() if value}


def complete(kind: RecordType, values: Values) -> dict[str, Value]:
    """Return all fields of a kind as they are stored, for a script that replaces a record with them.

    Default values are not left out: they replace the values that were there.

    Raises KeyError: a required field is missing.
    """
    known = _KNOWN[kind.name]
    written = {**known.absent, **{NAMES[name]: value for name, value in values.items()}}
    if written.keys() | {NAMES[VERSION]} != known.fields.keys() | {NAMES[VERSION]}:
        raise KeyError(kind.name)
    return written


def unpack(kind: RecordType, stored: bytes) -> dict[str, Any]:
    """Read a record: all fields of its kind by name, with their defaults.

    Raises:
        ValueError: It is not a record of this kind.
        SchemaError: It is a record of another version.
    """
    got, known = stored_map(stored), _KNOWN[kind.name]
    if not kind.inside:
        check_version(got[NAMES[VERSION]])
    values: dict[str, Any] = known.defaults.copy()
    for short, value in got.items():
        field = known.fields.get(short)
        if field is not None:
            name, expected = field
            if type(value) is not expected:
                raise ValueError(f"`{name}` is of another type")
            values[name] = value
    if len(values) < len(known.fields):
        raise ValueError(f"`{min({name for name, _ in known.fields.values()} - values.keys())}` is missing")
    return values


def stored_map(stored: bytes) -> dict[str, Value]:
    """Read a stored map, with its stored names and values.

    Raises ValueError: it is not a map.
    """
    found = _unpackb(stored, unicode_errors="surrogatepass")
    if isinstance(found, dict):
        return cast("dict[str, Value]", found)
    # A script writes a record without fields as an empty list.
    if found != []:
        raise ValueError("no map")
    return {}


def check_version(stored: object) -> None:
    """Refuse a record of another version.

    Raises:
        SchemaError: It is of another version.
        ValueError: The text is not a version.
    """
    if (version := int(cast("str", stored))) != SCHEMA:
        raise other_version(version)


def other_version(version: int) -> SchemaError:
    """Return the error for a record of another version."""
    if version > SCHEMA:
        return SchemaError(
            f"the store holds records of version `{version}`, this program reads version `{SCHEMA}`",
            next_step="upgrade lockgate",
        )
    return SchemaError(
        f"the store holds records of version `{version}`, which an older program wrote, and this one reads version "
        f"`{SCHEMA}` alone",
        next_step="begin with another `data_dir`, and with an empty database where `store.url` names one",
    )
