"""The shape of every stored body."""

from collections.abc import Mapping
from typing import TypeAlias

from pydantic import JsonValue

JsonObject: TypeAlias = Mapping[str, JsonValue]
