"""Files: where they are kept, the limits of those that people send, and the transcriber of recordings."""

from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from bot.config.fields import Block, Variable, WebAddress, only_here

_NAME: Final = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_PREFIX: Final = r"([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?"
_REGION: Final = r"[a-z0-9-]{1,64}"


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("the address of a bucket's server begins with `https://`, or on this machine with `http://`")
    if "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("the address of a bucket's server is host and port, its key and name stand in other fields")
    if parts.scheme == "http" and not only_here(parts.hostname):
        raise ValueError("files go to another machine only with encryption, write `https://`")
    return url.rstrip("/")


class BucketSettings(Block):
    """A bucket with the protocol of S3, which keeps the file root and the workspaces for all machines."""

    name: str = Field(pattern=f"^{_NAME}$")
    prefix: str = Field(default="", max_length=200, pattern=f"^{_PREFIX}$")
    """The beginning of all keys, as in `lockgate/first`."""
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = None
    """The server's address, null for that of AWS in the region."""
    region: str = Field(default="us-east-1", pattern=f"^{_REGION}$")
    key: Variable = "AWS_ACCESS_KEY_ID"
    """The environment variable that holds the id of the access key."""
    secret: Variable = "AWS_SECRET_ACCESS_KEY"
    """The environment variable that holds the secret of the access key."""
    token: Variable = "AWS_SESSION_TOKEN"
    """The environment variable that holds the token of a temporary access key; it need not be set."""

    @property
    def url(self) -> str:
        """The address of the server."""
        return self.endpoint or f"https://s3.{self.region}.amazonaws.com"


class FilesSettings(Block):
    """Where files are kept, and the limits of those that people send."""

    bucket: BucketSettings | None = None
    """The bucket for files and workspaces, null for the data directory."""
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
