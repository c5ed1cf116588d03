"""Memories of a program: learned, recalled, corrected and forgotten by the routes under `/v1/memories`."""

from urllib.parse import quote

from pydantic import JsonValue

from lockgate.retries import new_key, sendable
from lockgate.shapes import FoundMemories, KnownFactInFull, KnownFactPage, TaughtMemory
from lockgate.transport import IDEMPOTENCY_KEY, ClientRequest, Query, Transport


class Memories:
    """The memories of the program whose token this is: those that it or its sessions learned."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def learn(self, text: str, *, domain: str | None = None, key: str | None = None) -> TaughtMemory:
        """Teach something.

        Args:
            text: the fact to learn, at most 4,000 characters.
            domain: its subject, in a word.
            key: an idempotency key of the program's own, in place of one for this call.

        Raises:
            ApiError: with code `refused` if the policy does not allow it, `full` if as many are kept as may,
                `conflict` if the key was given for something else.
            ValueError: the key is not valid.
        """
        body: dict[str, JsonValue] = {"text": text} if domain is None else {"text": text, "domain": domain}
        return await self._transport.value(_once("/memories", body, key), TaughtMemory)

    async def list(self, *, cursor: str | None = None, limit: int | None = None) -> KnownFactPage:
        """Return a page of the memories of this program, newest first.

        Args:
            cursor: the `cursor` of the page before; None for the first page.
            limit: the most entries of the page; None for the API's default.
        """
        query: Query = {"cursor": cursor, "limit": limit}
        return await self._transport.value(ClientRequest("GET", "/memories", query, repeatable=True), KnownFactPage)

    async def recall(self, query: str, *, domain: str | None = None, limit: int | None = None) -> FoundMemories:
        """Return the memories that fit a query best, as an agent of this program would find them.

        Args:
            query: any word of it counts.
            domain: their subject; None for any.
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
            text: the corrected fact.
            key: an idempotency key of the program's own, in place of one for this call.

        Raises:
            ApiError: with code `refused` if the policy does not allow it, `full` if as many are kept as may,
                `conflict` if the key was given for something else.
            ValueError: the key is not valid.
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
