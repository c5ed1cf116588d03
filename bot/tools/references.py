"""References in a call's arguments: `{"$ref": "<id>"}` stands for the text of a held item; `_hold` keeps a result out.

A reference may stand only where the tool declares content. Anywhere else a held item could choose the data to read, or
a destination.

`admit` is the tool that reads a held item into the context after all, which raises the taint to its label.

The model writes a reference and never sees the referenced text. The text in its place is data: it is not searched for
references again, and a text that merely looks like one is a text.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pydantic import Field, JsonValue

from bot.access.agents import short_digest
from bot.sessions.log.events import DeferredResult
from bot.sessions.refs import HeldRef
from bot.tools.arguments import Path, is_content
from bot.tools.base import Arguments, CallFacts, RefusedCallError, Result, Tool, ToolContext, ToolServices
from policy.labels import PUBLIC, Label, join_all
from policy.request import Effect

HOLD: Final = "_hold"
"""The argument by which a model keeps a result out of its context; the gate takes it, no tool sees it."""

REFERENCE: Final = "$ref"

ADMIT: Final = "admit"
"""The tool that puts a held item into the context: its result is never held, its argument never replaced."""

UNKNOWN: Final = "there is nothing held under that reference"
"""The answer for a reference that never was, is another session's, or is of an earlier generation."""

NOTHING_MORE: Final = "there is nothing after that"

_WHY: Final = "true keeps the result out of this conversation, to be passed on by reference"

NO_CONTENT: Final = "a reference may stand only in an argument that is content, not in one that chooses an action"
"""The answer for a reference anywhere else, to any item."""

MALFORMED: Final = f'a reference is written {{"{REFERENCE}": "<id>"}}, with nothing beside it'


@dataclass(frozen=True, slots=True)
class Asked:
    """A call's arguments as the gate takes them: without `_hold`, and the held items they refer to."""

    arguments: Mapping[str, JsonValue]
    hold: bool | None
    refers: tuple[DeferredResult, ...]

    @property
    def label(self) -> Label:
        """The join of the labels of the referenced items."""
        return join_all(held.label for held in self.refers)

    @property
    def floor(self) -> Label:
        """The join of the parts of those labels that may be known."""
        return join_all(held.floor for held in self.refers)

    def opened(self) -> dict[str, JsonValue]:
        """Return the arguments with each reference's id in its place: the form that may be decided openly.

        Where nothing is referred to they stay as they are: references in a call to simulate are that call's.
        """
        return _replaced(self.arguments, lambda ref: ref) if self.refers else dict(self.arguments)

    def whole(self) -> dict[str, JsonValue]:
        """Return the arguments with each reference's text in its place."""
        texts = {held.ref: held.text for held in self.refers}
        return _replaced(self.arguments, lambda ref: texts[ref])

    def shown(self) -> dict[str, JsonValue]:
        """Return the arguments for people's approval: each reference with its item."""
        shown = {held.ref: held for held in self.refers}

        def show(ref: str) -> JsonValue:
            held = shown[ref]
            return {REFERENCE: ref, "label": str(held.label), "holds": held.text}

        return _replaced(self.arguments, show)


def may_hold(tool: Tool) -> bool:
    """Say whether it makes sense to keep a tool's result out of the context, or to pass it references."""
    return tool.effect is not Effect.NONE and tool.name != ADMIT


def offered(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments as a model is offered them, with the gate's own beside them."""
    schema = _schema(tool.arguments)
    if may_hold(tool):
        properties = {**schema.get("properties", {}), HOLD: {"type": "boolean", "description": _WHY}}
        return {**schema, "properties": properties}
    return dict(schema)


def definition_digest(tool: Tool) -> str:
    """Return the digest of a tool's definition as models see it: the same in every process."""
    return short_digest(json.dumps([tool.description, offered(tool)], sort_keys=True, separators=(",", ":")))


def asked(tool: Tool, arguments: Mapping[str, JsonValue] | None, held: tuple[DeferredResult, ...]) -> Asked:
    """Return a call's arguments taken apart; those of a tool that holds nothing are left as they are.

    Raises RefusedCallError: they are not a JSON object, `_hold` is not a boolean, or a reference is malformed, stands
    where no content is declared, or names no held item.
    """
    if arguments is None:
        raise RefusedCallError(f"arguments of `{tool.name}` must be a JSON object")
    given = dict(arguments)
    if not may_hold(tool):
        return Asked(given, None, ())
    hold = given.pop(HOLD, None)
    if not (hold is None or isinstance(hold, bool)):
        raise RefusedCallError(f"`{HOLD}` is true or false")
    known = {one.ref: one for one in held}
    found = tuple(_refs(given, ()))
    if not all(is_content(tool.arguments, path) for path, _ in found):
        raise RefusedCallError(NO_CONTENT)
    refs = tuple(dict.fromkeys(ref for _, ref in found))
    if not known.keys() >= set(refs):
        raise RefusedCallError(UNKNOWN)
    return Asked(given, hold, tuple(known[ref] for ref in refs))


def mentions(arguments: Mapping[str, JsonValue] | None) -> bool:
    """Say whether a call asks to be held or refers to an item, of any tool, and also in a malformed way."""
    given = dict(arguments or {})
    try:
        return HOLD in given or any(True for _ in _refs(given, ()))
    except RefusedCallError:
        return True


def referred(arguments: Mapping[str, JsonValue] | None) -> tuple[str, ...]:
    """Return the ids that a call's arguments refer to, each of them once; none of arguments that cannot be read."""
    try:
        return tuple(dict.fromkeys(ref for _, ref in _refs(dict(arguments or {}), ())))
    except RefusedCallError:
        return ()


@lru_cache(maxsize=256)
def _schema(arguments: type[Arguments]) -> Mapping[str, Any]:
    """Return the JSON schema of arguments, which takes milliseconds to make; nobody changes it."""
    return arguments.model_json_schema()


def _refs(value: JsonValue, path: Path) -> Iterator[tuple[Path, str]]:
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


def _ref(value: Mapping[str, JsonValue]) -> str | None:
    """Return the id of a reference, None for any other object.

    Raises RefusedCallError: it is neither.
    """
    if REFERENCE not in value:
        return None
    ref = value[REFERENCE]
    if len(value) != 1 or not isinstance(ref, str):
        raise RefusedCallError(MALFORMED)
    return ref


def _replaced(arguments: Mapping[str, JsonValue], put: Callable[[str], JsonValue]) -> dict[str, JsonValue]:
    return {name: _put(value, put) for name, value in arguments.items()}


def _put(value: JsonValue, put: Callable[[str], JsonValue]) -> JsonValue:
    if isinstance(value, dict):
        ref = _ref(value)
        return _replaced(value, put) if ref is None else put(ref)
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
