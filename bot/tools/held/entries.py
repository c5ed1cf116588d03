"""Entries of held lists: `{"$ref": "<id>", "entry": 1}` stands for the identifier of the first one, unheard.

A session that holds a list knows neither its entries nor their number. It may still name one by a place that it fixed
itself, or that a number of a held answer gives. The identifier at that place is put where a tool of the same server
takes handles of its kind. The list chooses this identifier alone, so only its role needs a bound of the operator, which
names entries expressly (ADR 0070). Whether there is such an entry is not told. An object that a call made is such an
entry too, which no third party chose (ADR 0071).
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pydantic import JsonValue

from bot.core.invisible import in_code
from bot.sessions.log.event_types import HeldIdentifiers
from bot.sessions.log.events import DeferredResult
from bot.sessions.messages import Endorsed
from bot.tools.base import CallableTool, RefusedCallError
from bot.tools.held.conditions import ANSWER, FIELD, AnswerField, answer_in
from bot.tools.held.handles import REFERENCE, TakenKind, named
from bot.tools.held.skeletons import Named, ObjectFields, Piece, Several, Shape, ShowsParts, drawn, unbounded
from policy.request import ArgumentRole

ENTRY: Final = "entry"
"""The name beside `$ref` that gives the place of an entry, the first of which is 1."""

MOST_PLACES: Final = 1_000
"""The highest place that a call may name."""

Place: TypeAlias = int | tuple[str, str]
"""The place of an entry, or the id of the held answer and the name of its field that gives it."""

NO_PLACE: Final = (
    f'an entry is written {{"{REFERENCE}": "<id>", "{ENTRY}": 1}}, with a place from 1 to {MOST_PLACES} or'
    f' {{"{ANSWER}": "<id>", "{FIELD}": "<name>"}}'
)

NOT_HERE: Final = "only an argument with a `handle`, or a list of such, takes an entry of a held list"

NO_LIST: Final = "this result lists no identifiers"
"""The refusal for any other id. This and the next three depend on the call behind the id, and tell nothing of the list.
"""

OTHER_SERVER: Final = "this list is one of the server `{listed}`, and this tool belongs to `{server}`"

OTHER_KIND: Final = "this result lists `{listed}`, and this argument takes `{kind}`"

HOLD_ONE: Final = "Hold the result of a call of the server `{server}` that lists `{kind}`, with `_hold`"
"""The step after each of the three."""

SHOWN: Final = (
    "the entries of this result were shown by handles, so give the handle of one. To take one by its place, hold the"
    " result of a new call with `_hold`"
)

WHOLE: Final = (
    "this argument takes one identifier, and this reference stands for a whole result. Name an entry of it, as"
    f' {{"{REFERENCE}": "<id>", "{ENTRY}": 1}}'
)
"""The refusal for a list in place of an identifier: no person could vouch for it as one."""

NO_NUMBER: Final = f"the place of an `{ENTRY}` is a number of the held answer; it has "

NOT_THERE: Final = (
    "the held list has no entry at that place, so the call was not made. The list is shorter, its call failed, or its"
    " result did not fit the `output` of its tool"
)
"""The refusal where there is no entry: one text for the three causes, as they tell of the list."""

FULL: Final = (
    "taking an entry of this list has more bits than may be endorsed now. The next message of your user makes room, but"
    " not for calls that nothing was read after"
)
"""The refusal where the charge has no room. It depends on the calls of the session and nothing on the list."""


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a held list, in an argument of a call.

    Args:
        item: The held result.
        listed: Its identifiers of the kind that the argument takes.
        role: The role of the argument, None for none.
        place: The place, or the number of a held answer that gives it.
    """

    item: DeferredResult
    listed: HeldIdentifiers
    role: ArgumentRole | None
    place: int | AnswerField

    @property
    def depends(self) -> tuple[DeferredResult, ...]:
        """The held items that choose the identifier."""
        return (self.item,) if isinstance(self.place, int) else (self.item, self.place.item)

    @property
    def name(self) -> str:
        """The name that stands for it where a call is decided openly: written as a handle, and known as none."""
        place = self.place if isinstance(self.place, int) else MOST_PLACES + 1
        return named(self.item.ref, 0, self.listed.kind, place)

    @property
    def identifier(self) -> JsonValue:
        """The identifier. Raises RefusedCallError: there is no such entry."""
        if self._found is None:
            raise RefusedCallError(NOT_THERE)
        return self._found

    @property
    def endorsed(self) -> tuple[Endorsed, ...]:
        """The charge of the answer that gives the place, none without one."""
        return () if isinstance(self.place, int) else self.place.endorsed

    @property
    def millibits(self) -> int:
        """The information in which entry it is, if any: it depends on the description alone."""
        return math.ceil(1000 * math.log2(self.listed.most + 1))

    def shown(self) -> dict[str, JsonValue]:
        """Return it for people's approval, with the identifier, null where there is none."""
        place: JsonValue = self.place if isinstance(self.place, int) else self.place.shown()
        return {REFERENCE: self.item.ref, "label": str(self.item.label), ENTRY: place, "holds": self._found}

    @property
    def missing(self) -> bool:
        """Whether there is no such entry."""
        return self._found is None

    @property
    def told(self) -> str:
        """The list and the place in words for people who are asked: the call fixed both, so nothing of it is told."""
        return f"its {self._role} is {self._where}"

    @property
    def vouched(self) -> str:
        """The identifier as people are shown it: whole, in ASCII, and as code. Without one they are shown no values."""
        return f"{self._role} {in_code(json.dumps(self._found))}, {self._where}"

    @property
    def _role(self) -> str:
        return "value without a role" if self.role is None else self.role.value

    @property
    def _where(self) -> str:
        place = self.place
        named = f"entry {place}" if isinstance(place, int) else f"the entry at `{place.field}` of {place.item.named}"
        return f"{named} of {self.item.named}"

    @property
    def _found(self) -> JsonValue:
        """The identifier, None where there is no such entry."""
        place = self.place if isinstance(self.place, int) else self.place.value
        if isinstance(place, bool) or not isinstance(place, int) or not 1 <= place <= len(self.listed.identifiers):
            return None
        return json.loads(self.listed.identifiers[place - 1])


def place_in(given: JsonValue) -> Place:
    """Return the place that a call gives. Raises RefusedCallError: it is malformed."""
    match given:
        case bool():
            raise RefusedCallError(NO_PLACE)
        case int() if 1 <= given <= MOST_PLACES:
            return given
        case {"answer": str(answer), "field": str(field)} if len(given) == len((ANSWER, FIELD)):
            return answer, field
        case _:
            raise RefusedCallError(NO_PLACE)


def entry_in(
    held: DeferredResult, place: Place, known: Mapping[str, DeferredResult], *, server: str, kind: str
) -> tuple[HeldIdentifiers, int | AnswerField]:
    """Return the list of a held item that a call of a server names for an argument of a kind, and the place in it.

    Raises RefusedCallError: the item has no such list, or the place names no number of a held answer.
    """
    listed = next((one for one in held.listed if one.kind == kind), None)
    if listed is None or held.server != server:
        raise RefusedCallError(_no_list(held, server, kind))
    if isinstance(place, int):
        return listed, place
    item, fields = answer_in(place[0], known, ENTRY)
    numbers = [name for name, boolean in fields if not boolean]
    if place[1] not in numbers:
        raise RefusedCallError(f"{NO_NUMBER}{', '.join(f'`{name}`' for name in numbers) or 'none'}")
    return listed, AnswerField(item, place[1])


def _no_list(held: DeferredResult, server: str, kind: str) -> str:
    """Return why a held item has no list for an argument of a kind, as its call tells, and the next step."""
    if held.handles:
        return SHOWN
    told = NO_LIST
    if held.listed and held.server != server:
        told = OTHER_SERVER.format(listed=held.server, server=server)
    elif held.listed:
        told = OTHER_KIND.format(listed="`, `".join(one.kind for one in held.listed), kind=kind)
    return f"{told}. {HOLD_ONE.format(server=server, kind=kind)}"


def check_whole(taken: Mapping[str, TakenKind], path: tuple[str | int, ...], held: DeferredResult) -> None:
    """Check that a reference to a whole item does not put a list where a call's tool takes one identifier.

    Raises RefusedCallError: it does. That depends on the call behind the id, and tells nothing of the list.
    """
    if (held.listed or held.handles) and _kind_at(taken, path):
        raise RefusedCallError(WHOLE if held.listed else SHOWN)


def taken_at(taken: Mapping[str, TakenKind], path: tuple[str | int, ...]) -> str:
    """Return the kind of handles that a call's tool takes at a place. Raises RefusedCallError: it takes none there."""
    kind = _kind_at(taken, path)
    if not kind:
        raise RefusedCallError(NOT_HERE)
    return kind


def _kind_at(taken: Mapping[str, TakenKind], path: tuple[str | int, ...]) -> str:
    kind = taken.get(str(path[0])) if path else None
    return "" if kind is None or len(path) != 1 + kind.several else kind.kind


def identifiers(
    shape: Shape, value: JsonValue, scrub: Callable[[str], str], *, own: bool = False
) -> tuple[HeldIdentifiers, ...]:
    """Return the identifiers in a result, in its order, by the kinds that its description has.

    A result that does not fit has none. The kinds and the highest numbers depend on the description alone.

    Args:
        shape: How the result is described.
        value: The result, None for one that failed or was refused.
        scrub: Returns a text without the values of secrets.
        own: Whether the session itself fixed all that steered the call, and so the object that the call made.
    """
    found = dict[str, list[str]]()

    def keep(piece: Piece) -> JsonValue:
        if piece.kind:
            found.setdefault(piece.kind, []).append(piece.text)
        return ""

    if drawn(unbounded(shape), value, scrub, keep) is None:
        found = {}
    made = _made(shape) if own else frozenset[str]()
    return tuple(
        HeldIdentifiers(kind, most, tuple(found.get(kind, ())), kind in made) for kind, most in _kinds(shape).items()
    )


def as_marked_now(held: DeferredResult, tool: CallableTool | None) -> DeferredResult:
    """Return a held result without the objects that its call made, if the description no longer has the mark.

    An operator takes the mark out when the tool proves to return objects of others. `tool` is the one that gave the
    result, as it is described now; None if it is gone.
    """
    if not any(one.made for one in held.listed):
        return held
    shape = tool.shape if isinstance(tool, ShowsParts) else None
    made = frozenset[str]() if shape is None else _made(shape)
    return replace(held, listed=tuple(replace(one, made=one.made and one.kind in made) for one in held.listed))


def _made(shape: Shape) -> frozenset[str]:
    """Return the kinds of identifiers in a shape that name an object which the call made."""
    match shape:
        case Named(kind=kind, made=True):
            return frozenset({kind})
        case ObjectFields(fields=fields):
            return frozenset[str]().union(*(_made(one.shape) for one in fields))
        case _:
            return frozenset()


def _kinds(shape: Shape) -> dict[str, int]:
    """Return the kinds of identifiers that a shape has, each with the highest number of them."""
    match shape:
        case Named(kind=kind):
            return {kind: 1}
        case Several(entry=entry, most=most):
            return {kind: number * most for kind, number in _kinds(entry).items()}
        case ObjectFields(fields=fields):
            found = dict[str, int]()
            for one in fields:
                for kind, number in _kinds(one.shape).items():
                    found[kind] = found.get(kind, 0) + number
            return found
        case _:
            return {}
