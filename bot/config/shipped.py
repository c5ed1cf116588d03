"""The entries of the shipped policy, as operators write them: a section of the file replaces the whole shipped one."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, cast

from pydantic import JsonValue

from policy.document.model import defaults
from policy.errors import Problem

_DROPS: Final = "`policy.{section}` replaces the shipped section and drops `{name}`{effect}"
_CONSOLE: Final = "console"
_UNKNOWN: Final = f"unknown channel `{_CONSOLE}`"


def drops(section: str, name: str, effect: str = "") -> str:
    """Return a sentence on a section that lacks an entry of the shipped one, and on the effect of that."""
    return _DROPS.format(section=section, name=name, effect=f", so {effect}" if effect else "")


def add(section: str, name: str) -> str:
    """Return the line to write into a section."""
    return f"add `{name}: {_flow(entries(section)[name])}` to it"


def extended(section: str, names: Collection[str], entry: str) -> str:
    """Return the next step that adds an entry to a section, which has entries of these names."""
    shipped = entries(section)
    if set(names) != set(shipped):
        return f"add `{entry}` to it"
    whole = ", ".join((*(f"{name}: {_flow(one)}" for name, one in shipped.items()), entry))
    return f"write `{section}: {{{whole}}}` under `policy`"


def entries(section: str) -> Mapping[str, Mapping[str, object]]:
    """Return the entries of a shipped section."""
    return cast("Mapping[str, Mapping[str, object]]", defaults()[section])


def console_dropped(value: JsonValue, found: tuple[Problem, ...]) -> Iterator[Problem]:
    """Yield a problem where the section `channels` drops the console, and others of `found` are about that."""
    channels = value.get("channels") if isinstance(value, dict) else None
    if isinstance(channels, dict) and _CONSOLE not in channels and any(_UNKNOWN in one.message for one in found):
        yield Problem(("channels",), f"{drops('channels', _CONSOLE)}: {add('channels', _CONSOLE)}")


def _flow(value: object) -> str:
    """Write an entry as YAML on one line."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return f"{{{', '.join(f'{key}: {_flow(inner)}' for key, inner in pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(inner) for inner in cast('list[object]', value))}]"
    return f"'{value}'" if ":" in str(value) else str(value)
