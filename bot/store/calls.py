"""A call of a script and its answer: arguments and replies by name, as the header of each script lists them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from bot.store.records.codec import Bodies, text
from bot.store.records.form import pack_arguments
from bot.store.records.names import NAMES
from bot.store.schema import SessionKeys
from bot.store.scripts.loader import KEYS, Script
from bot.store.servers.connection import Arg, Reply

Arguments: TypeAlias = Mapping[str, Any]
"""A script's arguments: texts, numbers, flags, lists and maps of them. None stands for an absent argument."""


_FIELDS: Final = MappingProxyType({stored.encode(): name for name, stored in NAMES.items()})


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script with its keys and its arguments, as the server takes them."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Arg]


@dataclass(frozen=True, slots=True)
class ScriptAnswer:
    """The answer of a script: a word, and values by name. An absent value is zero, false or empty."""

    word: str
    values: Mapping[str, Reply]

    def value(self, name: str) -> Reply:
        """Return a value as the server gave it, None if it is absent."""
        return self.values.get(name)

    def number(self, name: str) -> int:
        """Return a number."""
        return int(self.values.get(name) or 0)

    def flag(self, name: str) -> bool:
        """Return a flag."""
        return bool(self.values.get(name))

    def text(self, name: str) -> str:
        """Return a text."""
        return text(self.values.get(name) or b"")

    def list(self, name: str) -> Sequence[Reply]:
        """Return a list."""
        return self.values.get(name) or ()


def answer(reply: Reply) -> ScriptAnswer:
    """Read a script's reply; fields have their stored names there."""
    word, *flat = reply
    names = [_FIELDS.get(name) or text(name) for name in flat[::2]]
    return ScriptAnswer(text(word), dict(zip(names, flat[1::2], strict=True)))


def nested(values: Arguments) -> Arguments:
    """Return a map for use inside arguments, which has fields by their stored names as records have."""
    return {NAMES.get(name, name): value for name, value in values.items()}


def session_call(
    script: Script, keys: SessionKeys, args: Arguments, *, op: str = "", bodies: Bodies | None = None
) -> ScriptCall:
    """Return a call about one session; `op` names it where its answer is kept, `bodies` has its large texts."""
    large = bodies.large if bodies else {}
    names = [*keys.of(KEYS[script], op), *map(keys.body, large)]
    return ScriptCall(script, names, [pack_arguments(args), *large.values()])


def call(script: Script, keys: Mapping[str, str], args: Arguments) -> ScriptCall:
    """Return a call about keys that belong to no session."""
    return ScriptCall(script, [keys[name] for name in KEYS[script]], [pack_arguments(args)])
