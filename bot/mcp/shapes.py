"""How the result of a server's tool is shown to a TRUSTED session, made of its description in the configuration."""

from collections.abc import Mapping
from types import MappingProxyType

from bot.config.schemas.argument import McpArgument
from bot.config.schemas.marks import is_marked
from bot.tools.held.handles import TakenKind
from bot.tools.held.skeletons import Bounded, Hidden, Named, ObjectField, ObjectFields, ServerWritten, Several, Shape


def shape(output: McpArgument | None) -> Shape | None:
    """Return how a described result is shown, None for one that is shown as one reference."""
    return None if output is None or not output.fields else _shape(output)


def _shape(part: McpArgument) -> Shape:
    if part.written_by is not None:
        return ServerWritten()
    if part.handle is not None:
        return Named(part.handle, part.made)
    if part.bounded is not None:
        return Bounded(part.bounded.field(part.type), part.bounded.list or "")
    if part.type == "object" and part.fields:
        return ObjectFields(
            tuple(
                ObjectField(name, _shape(one), optional=not one.needed or one.nullable)
                for name, one in part.fields.items()
            )
        )
    if part.items is not None and part.max_items is not None and is_marked(part.items):
        return Several(_shape(part.items), part.min_items or 0, part.max_items)
    return Hidden()


def takes(arguments: Mapping[str, McpArgument]) -> Mapping[str, TakenKind]:
    """Return the arguments that take handles."""
    found = {name: TakenKind(one.handle) for name, one in arguments.items() if one.handle is not None}
    listed = {
        name: TakenKind(one.items.handle, several=True)
        for name, one in arguments.items()
        if one.items is not None and one.items.handle is not None
    }
    return MappingProxyType({**found, **listed})
