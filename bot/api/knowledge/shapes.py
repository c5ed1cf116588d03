"""The documents about memories: the bodies that programs send to teach, find and correct them, and the answers."""

from pydantic import Field

from bot.api.shapes import ApiInput, ApiOutput
from bot.sessions.knowledge.memories import LONGEST_DOMAIN, LONGEST_TEXT, MemoryState

LONGEST_QUERY = 10_000
MOST_RECALLED = 50


class NewMemory(ApiInput):
    """Something to learn."""

    text: str = Field(min_length=1, max_length=LONGEST_TEXT, pattern=r"\S")
    domain: str = Field(default="", max_length=LONGEST_DOMAIN, description="Its topic, in a word.")


class CorrectedText(ApiInput):
    """The corrected text of a memory."""

    text: str = Field(min_length=1, max_length=LONGEST_TEXT, pattern=r"\S")


class RecallQuery(ApiInput):
    """A query for memories."""

    query: str = Field(min_length=1, max_length=LONGEST_QUERY)
    domain: str = Field(default="", max_length=LONGEST_DOMAIN, description="The topic to look for; any if left out.")
    limit: int = Field(default=10, ge=1, le=MOST_RECALLED)


class MemoryMade(ApiOutput):
    """A memory that was learned, by this request or one with the same key."""

    id: str


class MemoryDocument(ApiOutput):
    """A memory."""

    id: str
    text: str | None = Field(description="Null where it is erased, or a rule keeps it back.")
    domain: str | None
    label: str = Field(description="The label of its text.")
    state: MemoryState
    learned_at: int = Field(description="Milliseconds since 1970.")
    asker: str
    by_agent: bool
    session: str | None = Field(description="The session that learned it.")
    corrects: str | None = Field(description="The memory in whose place it is.")
    corrected_by: str | None
    ended_at: int | None


class MemoryInFull(MemoryDocument):
    """A memory in full."""

    uses: int = Field(description="How often it was recalled, as far as its reader may know of who did.")


class MemoryList(ApiOutput):
    """Memories of this program, newest first."""

    memories: tuple[MemoryDocument, ...]
    cursor: str | None = Field(description="The cursor of the next page; null at the end.")


class RecalledMemories(ApiOutput):
    """Memories that fit a query, the best first."""

    memories: tuple[MemoryDocument, ...]
