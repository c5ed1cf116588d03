"""Files that people send, and who writes down what is said in them."""

from pydantic import Field

from bot.config.fields import Block, Variable, WebAddress


class FilesSettings(Block):
    """How much of what people send is taken in.

    A file has at most `megabytes`, and all files of a conversation together at most `total_megabytes`. `characters` of
    what a file says are put into the conversation. A message brings at most `per_message` files, each of which may take
    `seconds` to be fetched.
    """

    megabytes: int = Field(default=20, ge=1, le=1000)
    total_megabytes: int = Field(default=200, ge=1, le=100_000)
    characters: int = Field(default=20_000, ge=1, le=1_000_000)
    per_message: int = Field(default=10, ge=1, le=100)
    seconds: float = Field(default=60, gt=0, le=600)


class TranscriberSettings(Block):
    """A server that writes down what is said in a file, by OpenAI's protocol for that.

    `base_url` is its address without `/audio/transcriptions`. `key` is the environment variable that holds its key,
    null if it needs none. What it may hear stands under `policy.transcribers`, by the name of its `model`.
    """

    base_url: WebAddress
    model: str = Field(min_length=1, max_length=200)
    key: Variable | None = None
    seconds: float = Field(default=60, gt=0, le=600)
