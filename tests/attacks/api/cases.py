"""An attack on the HTTP API as a value: a route, what it is sent, and what a program hears that may know of it."""

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from ruamel.yaml import YAML

from bot.sessions.api_tokens import Scope

FILE: Final = Path(__file__).parent / "routes.yaml"


class RouteCase(BaseModel):
    """A route with what it is sent; the file says what each field means."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    route: str
    scope: Scope
    low: int
    archived: int | None = None
    blind: bool = False
    labelled: bool = False
    body: dict[str, JsonValue] | None = None
    content: str | None = None
    query: dict[str, str] = Field(default_factory=dict[str, str])
    headers: dict[str, str] = Field(default_factory=dict[str, str])

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def name(self) -> str:
        """What tells it from the others of its route."""
        more = {**self.query, **self.headers, **(self.body or {})}
        return f"{self.route} {more}" if more else self.route


class _File(BaseModel):
    routes: list[RouteCase]


def cases() -> list[RouteCase]:
    """Return every case of the file."""
    read: object = YAML(typ="safe").load(FILE)  # pyright: ignore[reportUnknownMemberType]
    return _File.model_validate(read, strict=False).routes
