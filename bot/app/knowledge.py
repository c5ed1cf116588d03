"""The keepers and searches of sessions' knowledge, as the composition root puts them together."""

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
    """The knowledge of an application's sessions.

    `keeper` keeps memories and `search` finds them, `skills` keeps skills and `skill_search` finds them. `patterns`
    finds similar memories, and `briefings` tells a session of all that.
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
        """Return the operations by which people see and change memories, and decide about skills."""
        memories = MemoryOperations(keeper=self.keeper, search=self.search, calls=calls)
        return memories, SkillOperations(self.skills)
