"""What keeps and finds what sessions learn, as the composition root puts it together."""

from bot.config.knowledge import KnowledgeSettings
from bot.knowledge.keeper import MemoryKeeper
from bot.knowledge.recall import KnowledgeSearch
from bot.operations.gated_calls import GatedCalls
from bot.operations.knowledge.memories import MemoryOperations
from bot.sessions.ports.store import Store


class Knowledge:
    """The memories of an application: `keeper` keeps them, `search` finds them."""

    def __init__(self, store: Store, config: KnowledgeSettings) -> None:
        """Keep them in a store."""
        self.keeper = MemoryKeeper(store.memories, now=store.tokens.now_ms, most=config.memories)
        self.search = KnowledgeSearch(store.memories)

    def managed(self, calls: GatedCalls) -> MemoryOperations:
        """Return what people see and change memories with."""
        return MemoryOperations(keeper=self.keeper, search=self.search, calls=calls)
