"""A call's arguments: checked against the tool's own type, walked for their texts, changed text by text."""

from collections.abc import Callable, Iterator, Mapping

from pydantic import JsonValue, ValidationError

from bot.tools.base import Arguments, RefusedCallError, Tool


def checked(tool: Tool, arguments: Mapping[str, JsonValue] | None) -> Arguments:
    """Return a call's arguments as the tool's own type.

    Raises RefusedCallError: naming the fields that do not fit, never their values.
    """
    if arguments is None:
        raise RefusedCallError(f"arguments of `{tool.name}` must be a JSON object")
    try:
        return tool.arguments.model_validate(dict(arguments))
    except ValidationError as error:
        wrong = sorted({f"`{'.'.join(str(part) for part in item['loc'])}` ({item['type']})" for item in error.errors()})
        raise RefusedCallError(f"arguments of `{tool.name}` do not fit: {', '.join(wrong[:5])}") from None


def strings(value: JsonValue) -> Iterator[str]:
    """Walk every text in a value, names of fields and numbers too: what rules' patterns look at."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def changed(arguments: Mapping[str, JsonValue], change: Callable[[str], str]) -> dict[str, JsonValue]:
    """Return arguments with every text changed, however deep, names of fields too."""
    return {change(name): _mapped(value, change) for name, value in arguments.items()}


def _mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return changed(value, change)
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    return value
