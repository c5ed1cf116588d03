"""What is known of a program: learned, recalled, corrected and forgotten by the routes under `/v1/memories`."""

from urllib.parse import quote

from pydantic import JsonValue

from lockgate.retries import new_key, sendable
from lockgate.shapes import FoundMemories, KnownFactInFull, KnownFactPage, TaughtMemory
from lockgate.transport import IDEMPOTENCY_KEY, ClientRequest, Query, Transport


class Memories:
    """The memories of the program whose token this is: what it or its sessions learned."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def learn(self, text: str, *, domain: str | None = None, key: str | None = None) -> TaughtMemory:
        """Teach something.

        Args:
            text: what is learned, at most 4,000 characters.
            domain: what it is about, in a word.
            key: an idempotency key of the program's own, in place of one for this call.

        Raises:
            ApiError: with code `refused` if the policy does not allow it, `full` if as many are kept as may,
                `conflict` if the key was given for something else.
            ValueError: the key is none.
        """
        body: dict[str, JsonValue] = {"text": text} if domain is None else {"text": text, "domain": domain}
        return await self._transport.value(_once("/memories", body, key), TaughtMemory)

    async def list(self, *, cursor: str | None = None, limit: int | None = None) -> KnownFactPage:
        """Return a page of what is known of this program, newest first."""
        query: Query = {"cursor": cursor, "limit": limit}
        return await self._transport.value(ClientRequest("GET", "/memories", query, repeatable=True), KnownFactPage)

    async def recall(self, query: str, *, domain: str | None = None, limit: int | None = None) -> FoundMemories:
        """Return what fits some words best, as an agent of this program would find it.

        Args:
            query: any word of it counts.
            domain: what they are to be about; None for anything.
            limit: how many at most; None for 10.
        """
        given = {"domain": domain, "limit": limit}
        body: dict[str, JsonValue] = {"query": query, **{name: one for name, one in given.items() if one is not None}}
        request = ClientRequest("POST", "/memories/recall", body=body, repeatable=True)
        return await self._transport.value(request, FoundMemories)

    async def get(self, memory: str) -> KnownFactInFull:
        """Return a memory by its id, also one that was corrected or forgotten."""
        return await self._transport.value(ClientRequest("GET", _memory(memory), repeatable=True), KnownFactInFull)

    async def correct(self, memory: str, text: str, *, key: str | None = None) -> TaughtMemory:
        """Have something else known in the place of a memory; return the one that stands there.

        Args:
            memory: its id.
            text: what is right.
            key: an idempotency key of the program's own, in place of one for this call.

        Raises:
            ApiError: with code `refused` if the policy does not allow it, `full` if as many are kept as may,
                `conflict` if the key was given for something else.
            ValueError: the key is none.
        """
        return await self._transport.value(_once(f"{_memory(memory)}/correct", {"text": text}, key), TaughtMemory)

    async def forget(self, memory: str) -> None:
        """Erase the words of a memory for good."""
        await self._transport.content(ClientRequest("DELETE", _memory(memory), repeatable=True))


def _once(path: str, body: JsonValue, key: str | None) -> ClientRequest:
    """Return a request that is done once, however often it is sent. Raises ValueError: the key is none."""
    headers = {IDEMPOTENCY_KEY: new_key() if key is None else sendable(key)}
    return ClientRequest("POST", path, body=body, headers=headers, repeatable=True)


def _memory(memory: str) -> str:
    return f"/memories/{quote(memory, safe='')}"
