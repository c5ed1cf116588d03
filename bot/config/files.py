"""Files that people send, and the transcriber of recordings."""

from pydantic import Field

from bot.config.fields import Block, Variable, WebAddress


class FilesSettings(Block):
    """The limits of files that people send."""

    megabytes: int = Field(default=20, ge=1, le=1000)
    """The largest file."""
    total_megabytes: int = Field(default=200, ge=1, le=100_000)
    """The most of all files of a conversation together."""
    characters: int = Field(default=20_000, ge=1, le=1_000_000)
    """The most characters of a file's text that are put into the conversation."""
    per_message: int = Field(default=10, ge=1, le=100)
    """The most files of one message."""
    seconds: float = Field(default=60, gt=0, le=600)
    """The longest time to fetch one file."""


class TranscriberSettings(Block):
    """A server that transcribes a file, by OpenAI's protocol for that."""

    base_url: WebAddress
    """Its address without `/audio/transcriptions`."""
    model: str = Field(min_length=1, max_length=200)
    """Its clearance stands under `policy.transcribers`, by this name."""
    key: Variable | None = None
    """The environment variable that holds its key, null if it needs none."""
    seconds: float = Field(default=60, gt=0, le=600)
