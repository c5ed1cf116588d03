"""What config.yaml may say of what sessions learn."""

from pydantic import Field

from bot.config.fields import Block


class KnowledgeSettings(Block):
    """What bounds knowledge: so many `memories` are kept of one principal and level."""

    memories: int = Field(default=100_000, ge=1, le=1_000_000)
