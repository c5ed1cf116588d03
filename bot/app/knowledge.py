"""What keeps and finds what sessions learn, as the composition root puts it together."""

from bot.config.knowledge import KnowledgeSettings
from bot.knowledge.briefing import Briefings
from bot.knowledge.keeper import MemoryKeeper
from bot.knowledge.patterns import Patterns
from bot.knowledge.recall import KnowledgeSearch
from bot.knowledge.skill_keeper import SkillKeeper
from bot.knowledge.skill_search import SkillSearch
from bot.operations.gated_calls import GatedCalls
from bot.operations.knowledge.memories import MemoryOperations
from bot.operations.knowledge.skills import SkillOperations
from bot.sessions.ports.store import Store


class Knowledge:
    """What an application's sessions have learned.

    `keeper` keeps memories and `search` finds them, `skills` keeps skills and `skill_search` finds them. `patterns` are
    what memories say alike, and `briefings` tell a session of all that.
    """

    def __init__(self, store: Store, config: KnowledgeSettings) -> None:
        """Keep it in a store."""
        self.keeper = MemoryKeeper(store.memories, now=store.tokens.now_ms, most=config.memories)
        self.search = KnowledgeSearch(store.memories)
        self.skills = SkillKeeper(store.skills, now=store.tokens.now_ms, most=config.skills)
        self.skill_search = SkillSearch(store.skills)
        self.patterns = Patterns(self.search, self.skill_search, self.skills)
        self.briefings = Briefings(
            search=self.search, skills=self.skill_search, keeper=self.skills, patterns=self.patterns
        )

    def managed(self, calls: GatedCalls) -> tuple[MemoryOperations, SkillOperations]:
        """Return what people see and change memories with, and what they decide about skills with."""
        memories = MemoryOperations(keeper=self.keeper, search=self.search, calls=calls)
        return memories, SkillOperations(self.skills)
