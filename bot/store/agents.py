"""The snapshots of agents that sessions pin.

Each is kept under the digest of its own text, so writing it again changes nothing and repairs damage, and all sessions
of one agent share it. The text is written before a session that pins it, in a request of its own, since the two are in
different slots. A snapshot that no session pins does no harm.
"""

from bot.store.records import codec
from bot.store.records.form import pack, unpack
from bot.store.records.kinds import AGENT
from bot.store.schema import agent_key
from bot.store.shared import Shared


class RedisAgents:
    """Implements the port `AgentStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def put(self, digest: str, text: str) -> None:
        """Keep a snapshot forever.

        Args:
            digest: The digest of its text, under which it is kept.
            text: The snapshot, as `bot.access.agents.written` writes it.

        Raises:
            StoreError: It could not be kept, so no session may pin it.
        """
        await self._shared.connection.commands(("SET", agent_key(digest), pack(AGENT, {"body": text})))

    async def read(self, digest: str) -> str | None:
        """Return the text of a snapshot.

        Args:
            digest: The digest under which it is kept.

        Returns:
            The text, None if there is no snapshot of this digest.

        Raises:
            SchemaError: It cannot be read, or a program of another version wrote it.
            StoreError: The store does not answer.
        """
        (found,) = await self._shared.connection.commands(("GET", agent_key(digest)))
        return None if found is None else codec.reading(lambda: str(unpack(AGENT, found)["body"]))
