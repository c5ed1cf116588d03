"""The common part of the API's documents: their strictness, and the shape of an error."""

import json
from typing import Final, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

_MOST_FIELDS: Final = 100


def as_written(value: JsonValue) -> str:
    """Return a value as compact JSON, the same text for the same value. Raises ValueError: it is not a JSON value."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def short(most: int) -> BeforeValidator:
    """Return a validator that refuses a value of more bytes of compact JSON, before its parts are looked at.

    Its words are shown, and hold no value.
    """

    def checked(value: object) -> object:
        try:
            size = len(as_written(cast("JsonValue", value)).encode())
        except (ValueError, RecursionError):
            raise ValueError("it should be JSON") from None
        if size > most:
            raise ValueError(f"it has at most {most // 1024} KB as JSON")
        return value

    return BeforeValidator(checked)


class ApiInput(BaseModel):
    """A body that a program sends: an unknown field is an error, and so is a value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, given: object) -> object:
        """Refuse as one error a body with so many fields that listing their faults would block all others."""
        if isinstance(given, dict) and len(cast("dict[str, object]", given)) > _MOST_FIELDS:
            raise ValueError(f"it has at most {_MOST_FIELDS} fields")
        return cast("object", given)


class ApiOutput(BaseModel):
    """A body that a program gets."""

    model_config = ConfigDict(frozen=True)


class ErrorDetail(ApiOutput):
    """An error: a stable code, a sentence for people, and the next step, if there is one."""

    code: str = Field(description="Stable; programs decide by it.")
    message: str
    next_step: str = ""


class ErrorDocument(ApiOutput):
    """The body of every refusal."""

    error: ErrorDetail
    request_id: str = Field(description="The answer's `X-Request-Id`; operators find the request by it.")
