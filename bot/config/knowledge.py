"""The section on knowledge in config.yaml."""

from pydantic import Field

from bot.config.fields import Block


class KnowledgeSettings(Block):
    """The limits of knowledge."""

    memories: int = Field(default=100_000, ge=1, le=1_000_000)
    """The most memories of one principal and label."""
    recalled: int = Field(default=5, ge=1, le=20)
    """The most memories that are recalled by themselves at a turn's beginning."""
    skills: int = Field(default=500, ge=1, le=10_000)
    """The most skills of one principal and label."""
