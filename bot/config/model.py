"""What config.yaml may say besides its policy: every field with its default, its unit and its range.

Unknown fields are errors. Secrets have no field here: keys of model providers come from the environment.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from policy.document import Document

INSTRUCTIONS: Final = (
    "You are the agent of a Lockgate installation. Answer briefly and plainly. "
    "Use a tool when it helps; when a call is refused, say so and name what the refusal offers instead."
)

_STORE_SCHEMES: Final = ("redis://", "rediss://", "unix://", "valkey://", "valkeys://")


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


def _store_url(url: str | None) -> str | None:
    if url is not None and not url.startswith(_STORE_SCHEMES):
        raise ValueError(f"a store's address begins with {', '.join(f'`{scheme}`' for scheme in _STORE_SCHEMES)}")
    if url is not None and "@" in url:
        raise ValueError(
            "a password does not belong in the configuration, give the whole address in LOCKGATE_STORE_URL"
        )
    return url


def _model_name(name: str) -> str:
    if name != "offline" and not all(name.partition(":")):
        raise ValueError(f"`{name}` is not a model, write `offline` or provider and model as in `openai:gpt-5`")
    return name


class StoreSettings(_Block):
    """Where sessions are kept: `url` null starts the embedded server in the data directory."""

    url: Annotated[str | None, AfterValidator(_store_url)] = None
    lease_seconds: int = Field(default=30, ge=2, le=3600)


class ModelSettings(_Block):
    """Who thinks: `offline` needs no key and no network."""

    name: Annotated[str, AfterValidator(_model_name)] = "offline"
    instructions: str = Field(default=INSTRUCTIONS, max_length=100_000)


class Limits(_Block):
    """How much of anything: per turn, per session, per message."""

    model_steps: int = Field(default=20, ge=1, le=1000)
    inbox_items: int = Field(default=100, ge=1, le=10_000)
    message_characters: int = Field(default=100_000, ge=1, le=1_000_000)
    approval_minutes: int = Field(default=10, ge=1, le=60 * 24 * 7)
    simulations_per_minute: int = Field(default=20, ge=1, le=10_000)


class Settings(_Block):
    """Everything but the policy, as written."""

    data_dir: str = Field(default=".bot", min_length=1, max_length=4096)
    store: StoreSettings = StoreSettings()
    model: ModelSettings = ModelSettings()
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration in force.

    `data_dir` is absolute. `policy` is the validated document. `source` is the file it was read from,
    None when the defaults are in force because there is none.
    """

    data_dir: Path
    store: StoreSettings
    model: ModelSettings
    limits: Limits
    policy: Document
    source: Path | None
