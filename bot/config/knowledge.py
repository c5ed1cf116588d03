"""What config.yaml may say of what sessions learn."""

from pydantic import Field

from bot.config.fields import Block


class KnowledgeSettings(Block):
    """What bounds knowledge: so many `memories`, and so many `skills`, are kept of one principal and label.

    Where memories are recalled by themselves, a turn begins with as many as `recalled` of them.
    """

    memories: int = Field(default=100_000, ge=1, le=1_000_000)
    recalled: int = Field(default=5, ge=1, le=20)
    skills: int = Field(default=500, ge=1, le=10_000)
