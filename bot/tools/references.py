"""References in a call's arguments: `{"$ref": "<id>"}` stands for the text of a held item; `_hold` keeps a result out.

`_if` names a held answer: the call is made only if a field of it is true (`bot.tools.held.conditions`).

A reference may stand where the tool declares content. Anywhere else a held item could choose the data to read, or a
destination. An argument with another role of a server's tool may have one too: people are then shown the value and
asked. It counts as theirs in that role of that call (ADR 0065).

With `entry` beside it a reference stands for the identifier of one entry of a held list (`bot.tools.held.entries`).

A handle such as `mail-3-k7qd` is a name of ours for an identifier of a server (`bot.tools.held.handles`). It may stand
only where an argument of the same server takes its kind.

`admit` is the tool that reads a held item into the context after all, which raises the taint to its label.

The model writes a reference and never sees the referenced text. The text in its place is data: it is not searched for
references again, and a text that merely looks like one is a text.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from pydantic import Field, JsonValue

from bot.access.agents import short_digest
from bot.access.decision_context import Call
from bot.sessions.log.events import DeferredResult
from bot.sessions.refs import HeldRef
from bot.tools.arguments import Path, role_at
from bot.tools.base import (
    Arguments,
    CallableTool,
    CallFacts,
    RefusedCallError,
    Result,
    Tool,
    ToolContext,
    ToolServices,
)
from bot.tools.held.conditions import ANSWER, IF, AnswerField, may_depend, named_in
from bot.tools.held.entries import ENTRY, ListEntry, Place, check_whole, entry_in, place_in, taken_at
from bot.tools.held.handles import REFERENCE, TakenKind, TakesHandles, identifier, is_handle
from bot.tools.schemas import offered_schema
from policy.labels import PUBLIC, Label, join_all
from policy.request import ArgumentRole, Effect

HOLD: Final = "_hold"
"""The argument by which a model keeps a result out of its context; the gate takes it, no tool sees it.

Its use is told once, by the instructions of the session (`bot.agent.guidance`).
"""

ADMIT: Final = "admit"
"""The tool that puts a held item into the context: its result is never held, its argument never replaced."""

INSPECT: Final = "inspect"
"""The tool that has a model read held items: its ids are references without being written as such."""

REFS: Final = "refs"
"""The argument of `inspect` that has these ids."""

UNKNOWN: Final = "there is nothing held under that reference. A reset ends all ids, so make the call again that held it"
"""The answer for a reference that never was, is another session's, or is of an earlier generation."""

NOTHING_MORE: Final = "there is nothing after that"

NO_CONTENT: Final = "a reference may stand only in an argument that is content, not in one that chooses an action"
"""The answer for a reference anywhere else, to any item."""

MALFORMED: Final = f'a reference is written {{"{REFERENCE}": "<id>"}}, with nothing beside it'


NO_HANDLE: Final = "this handle names nothing here: it stands for an identifier of its own server, in this conversation"
"""The answer for a handle of another session, generation or server, and for one in any other argument."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference in a call: the id of a held item, and the place of an entry in it, None for the whole item."""

    ref: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A call's arguments as the gate takes them: without `_hold`, and the held items they refer to.

    `takes` are the arguments whose handles are replaced. `by_text` says whether a reference stands for a text, for an
    entry, or for an answer that the call depends on. An identifier behind a handle may be such a text. The items of the
    `condition` and of `entries` are not among those that it `refers` to. `quotes` says whether a text goes along.
    """

    arguments: Mapping[str, JsonValue]
    hold: bool | None
    refers: tuple[DeferredResult, ...]
    steers: tuple[tuple[ArgumentRole, DeferredResult], ...] = ()
    """The items that would steer the call, each with the role of its argument."""
    takes: frozenset[str] = frozenset()
    by_text: bool = False
    quotes: bool = False
    condition: AnswerField | None = None
    entries: Mapping[tuple[str, Reference], ListEntry] = field(default_factory=dict[tuple[str, Reference], ListEntry])
    """The entries of held lists that it takes, by the arguments and the references to them there."""

    @property
    def depends(self) -> tuple[DeferredResult, ...]:
        """Every held item that the call depends on: those that it refers to, and those of its condition and entries."""
        chosen = (item for entry in self.entries.values() for item in entry.depends)
        decides = () if self.condition is None else (self.condition.item,)
        return tuple(dict.fromkeys((*self.refers, *chosen, *decides)))

    @property
    def own(self) -> bool:
        """Whether the session fixed all that steers the call: other held items are texts in it, or its condition."""
        return not (self.steers or self.entries or any(held.handle for held in self.refers))

    @property
    def label(self) -> Label:
        """The join of the labels of the items that the call depends on."""
        return join_all(held.label for held in self.depends)

    @property
    def floor(self) -> Label:
        """The join of the parts of those labels that may be known."""
        return join_all(held.floor for held in self.depends)

    @property
    def content(self) -> Label:
        """The join of the labels of the referenced items, without those of the condition and of entries."""
        return join_all(held.label for held in self.refers)

    @property
    def content_floor(self) -> Label:
        """The join of the parts of those labels that may be known."""
        return join_all(held.floor for held in self.refers)

    def opened(self) -> dict[str, JsonValue]:
        """Return the arguments with each reference's id in its place: the form that may be decided openly.

        An entry has its name there. Where nothing is referred to the arguments stay as they are: references in a call
        to simulate are that call's.
        """

        def put(argument: str, reference: Reference) -> JsonValue:
            entry = self.entries.get((argument, reference))
            return reference.ref if entry is None else entry.name

        if not (self.refers or self.entries):
            return dict(self.arguments)
        return {name: _put(value, partial(put, name)) for name, value in self.arguments.items()}

    def whole(self) -> dict[str, JsonValue]:
        """Return the arguments with each reference's text in its place, or the identifier of its entry.

        Raises RefusedCallError: there is no such entry.
        """
        texts = {held.ref: held.text for held in self.refers}

        def put(argument: str, reference: Reference) -> JsonValue:
            entry = self.entries.get((argument, reference))
            return texts[reference.ref] if entry is None else entry.identifier

        return self._filled(put, identifier)

    def shown(self) -> dict[str, JsonValue]:
        """Return the arguments for people's approval: each reference with its item."""
        shown = {held.ref: held for held in self.refers}

        def show(argument: str, reference: Reference) -> JsonValue:
            entry = self.entries.get((argument, reference))
            return _shown(shown[reference.ref]) if entry is None else entry.shown()

        told = {} if self.condition is None else {IF: self.condition.shown()}
        return {**self._filled(show, _shown), **told}

    def _filled(
        self, put: Callable[[str, Reference], JsonValue], name: Callable[[DeferredResult], JsonValue]
    ) -> dict[str, JsonValue]:
        """Return the arguments with these in place of references and handles; a text that came by reference is none."""
        known = {held.ref: held for held in self.refers if held.handle}

        def one(value: JsonValue, here: Callable[[Reference], JsonValue]) -> JsonValue:
            return name(known[value]) if isinstance(value, str) and value in known else _put(value, here)

        def filled(key: str, value: JsonValue) -> JsonValue:
            here = partial(put, key)
            if key not in self.takes:
                return _put(value, here)
            return [one(inner, here) for inner in value] if isinstance(value, list) else one(value, here)

        return {key: filled(key, value) for key, value in self.arguments.items()}


def _shown(held: DeferredResult) -> JsonValue:
    return {REFERENCE: held.ref, "label": str(held.label), "holds": held.text}


def may_hold(tool: CallableTool) -> bool:
    """Say whether it makes sense to keep a tool's result out of the context, or to pass it references."""
    return tool.effect is not Effect.NONE and tool.name != ADMIT


def pointing(call: Call) -> Call:
    """Return a call with a reference in place of each id that stands alone where only ids may: in `refs` and `_if`."""
    given = dict(call.arguments or {})
    refs, condition = given.get(REFS) if call.tool == INSPECT else None, given.get(IF)
    if isinstance(refs, list):
        given[REFS] = [_pointed(one) for one in refs]
    if isinstance(condition, dict) and ANSWER in condition:
        given[IF] = {**condition, ANSWER: _pointed(condition[ANSWER])}
    return call if call.arguments is None or given == call.arguments else replace(call, arguments=given)


def _pointed(value: JsonValue) -> JsonValue:
    return {REFERENCE: value} if isinstance(value, str) else value


def offered(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments as a model is offered them, with the gate's own beside them."""
    schema = offered_schema(tool.arguments)
    beside: dict[str, JsonValue] = {HOLD: {"type": "boolean"}} if may_hold(tool) else {}
    beside |= {IF: {"type": "object"}} if may_depend(tool) else {}
    return {**schema, "properties": {**schema.get("properties", {}), **beside}} if beside else dict(schema)


def definition_digest(tool: Tool) -> str:
    """Return the digest of a tool's definition as models see it: the same in every process."""
    return short_digest(json.dumps([tool.description, offered(tool)], sort_keys=True, separators=(",", ":")))


def asked(tool: CallableTool, arguments: Mapping[str, JsonValue] | None, held: tuple[DeferredResult, ...]) -> Asked:
    """Return a call's arguments taken apart; those of a tool that holds nothing are left as they are.

    Raises RefusedCallError: they are not a JSON object, or `_hold` is no boolean. Or a reference is malformed, names no
    held item, or stands where it may not. Or a handle names nothing here, `_if` no answer, or an entry no list.
    """
    if arguments is None:
        raise RefusedCallError(f"arguments of `{tool.name}` must be a JSON object")
    given = dict(arguments)
    if not (may_hold(tool) or _taken(tool)):
        return Asked(given, None, ())
    hold = given.pop(HOLD, None)
    if not (hold is None or isinstance(hold, bool)):
        raise RefusedCallError(f"`{HOLD}` is true or false")
    known = {one.ref: one for one in held}
    condition = named_in(tool, given.pop(IF), known) if IF in given else None
    every = tuple((role_at(tool.arguments, path), path, one) for path, one in _refs(given, ()))
    found = tuple((role, one.ref) for role, _, one in every if one.place is None)
    steers = tuple((role, ref) for role, ref in found if role is not ArgumentRole.CONTENT)
    if any(role is None for role, _ in steers) or (steers and not tool.server):
        raise RefusedCallError(NO_CONTENT)
    refs = tuple(dict.fromkeys(ref for _, ref in found))
    if not known.keys() >= {one.ref for _, _, one in every}:
        raise RefusedCallError(UNKNOWN)
    entries = dict[tuple[str, Reference], ListEntry]()
    for role, path, one in every:
        if one.place is None:
            check_whole(_taken(tool), path, known[one.ref])
        else:
            kind, item = taken_at(_taken(tool), path), known[one.ref]
            listed, place = entry_in(item, one.place, known, server=tool.server, kind=kind)
            entries[str(path[0]), one] = ListEntry(item, listed, role, place)
    handles = _handles(tool, given, known)
    return Asked(
        given,
        hold,
        tuple(known[ref] for ref in dict.fromkeys((*refs, *handles))),
        tuple((role, known[ref]) for role, ref in steers if role is not None),
        frozenset(_taken(tool)),
        by_text=bool(every) or condition is not None,
        quotes=len(found) > len(steers),
        condition=condition,
        entries=entries,
    )


def _taken(tool: CallableTool) -> Mapping[str, TakenKind]:
    return tool.takes if isinstance(tool, TakesHandles) else {}


def _handles(tool: CallableTool, given: dict[str, JsonValue], known: Mapping[str, DeferredResult]) -> tuple[str, ...]:
    """Return the handles in a call's arguments, each once.

    Raises RefusedCallError: one names nothing here, or stands where its kind is not taken.
    """
    taken, found = _taken(tool), dict[str, None]()
    for name, kind in taken.items():
        value = given.get(name)
        for one in value if kind.several and isinstance(value, list) else [value]:
            if isinstance(one, str) and is_handle(kind.kind, one):
                held = known.get(one)
                if held is None or (held.handle, held.server) != (kind.kind, tool.server):
                    raise RefusedCallError(NO_HANDLE)
                found[one] = None
    kinds = {ref: held.handle for ref, held in known.items() if held.handle}
    for path, text in _texts(given, ()) if kinds else ():
        kind = taken.get(str(path[0]))
        here = kind is not None and kind.kind == kinds.get(text)
        if text in kinds and not here and role_at(tool.arguments, path) is not ArgumentRole.CONTENT:
            raise RefusedCallError(NO_HANDLE)
    return tuple(found)


def _texts(value: JsonValue, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the texts in a value, each with where it stands; a reference is none."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict) and REFERENCE not in value:
        for name, inner in value.items():
            yield from _texts(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _texts(inner, (*path, place))


def mentions(arguments: Mapping[str, JsonValue] | None) -> bool:
    """Say whether a call asks to be held or refers to an item, of any tool, and also in a malformed way."""
    given = dict(arguments or {})
    try:
        return HOLD in given or any(True for _ in _refs(given, ()))
    except RefusedCallError:
        return True


def takes_entries(arguments: Mapping[str, JsonValue] | None) -> bool:
    """Say whether a call's arguments name an entry of a held list; those that cannot be read name none."""
    try:
        return any(one.place is not None for _, one in _refs(dict(arguments or {}), ()))
    except RefusedCallError:
        return False


def referred(arguments: Mapping[str, JsonValue] | None) -> tuple[str, ...]:
    """Return the items that a call's arguments refer to, or to a part of, each of them once.

    There are none in arguments that cannot be read.
    """
    try:
        return tuple(dict.fromkeys(_items(dict(arguments or {}))))
    except RefusedCallError:
        return ()


def _items(arguments: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the ids of the held items that references name. Raises RefusedCallError: one is malformed."""
    for _, one in _refs(dict(arguments), ()):
        yield one.ref.partition(".")[0]
        if isinstance(one.place, tuple):
            yield one.place[0]


def _refs(value: JsonValue, path: Path) -> Iterator[tuple[Path, Reference]]:
    """Yield the references in a value, each with where it stands."""
    if isinstance(value, dict):
        ref = _ref(value)
        if ref is not None:
            yield path, ref
            return
        for name, inner in value.items():
            yield from _refs(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _refs(inner, (*path, place))


def _ref(value: Mapping[str, JsonValue]) -> Reference | None:
    """Return a reference, None for any other object.

    Raises RefusedCallError: it is neither.
    """
    if REFERENCE not in value:
        return None
    ref = value[REFERENCE]
    if not isinstance(ref, str) or not value.keys() <= {REFERENCE, ENTRY}:
        raise RefusedCallError(MALFORMED)
    return Reference(ref, place_in(value[ENTRY]) if ENTRY in value else None)


def _put(value: JsonValue, put: Callable[[Reference], JsonValue]) -> JsonValue:
    if isinstance(value, dict):
        ref = _ref(value)
        return {name: _put(inner, put) for name, inner in value.items()} if ref is None else put(ref)
    if isinstance(value, list):
        return [_put(inner, put) for inner in value]
    return value


def notice(held: DeferredResult, taint: Label) -> str:
    """Return the text that the model reads instead of a held item: the same for every item.

    Of its label only the part known beforehand is given, and only if the taint is as high already. Neither its size nor
    whether the call was done, refused or failed is given: all of that may depend on the content.
    """
    known = f", labelled {held.floor} or higher" if held.floor.flows_to(taint) else ""
    return (
        f"The result of this call is held as `{held.ref}`{known}: it alone is kept out of this conversation. "
        f'`{{"{REFERENCE}": "{held.ref}"}}` in place of a text passes it on, `{ADMIT}` reads it.'
    )


class AdmitArguments(Arguments):
    """Arguments of `admit`."""

    ref: str = Field(min_length=1, max_length=128, description="the id in the notice of a held result")
    after: int = Field(default=0, ge=0, description="how many of its characters you have read; the rest is returned")


class Admit:
    """Read a held item into the conversation."""

    name = ADMIT
    description = "Read a held result into this conversation. Its label then decides where you may speak."
    effect = Effect.READ
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = AdmitArguments

    def declare(self, arguments: AdmitArguments, context: ToolContext) -> CallFacts:
        """Declare the label that was known before the item was read, as its true label may not be known yet."""
        held = context.session.held_item(arguments.ref)
        if held is None:
            raise RefusedCallError(UNKNOWN)
        return CallFacts(result=held.floor)

    async def run(self, arguments: AdmitArguments, context: ToolContext, services: ToolServices) -> Result:
        """Return the content; an item that may not enter this context counts as absent (law `no_read_up`)."""
        held = context.session.held_item(arguments.ref)
        if held is None or not services.permits(held.label):
            return Result(UNKNOWN, failed=True)
        return Result(held.text[arguments.after :] or NOTHING_MORE, held.label, refs=(HeldRef(held.ref),))
