"""Memories as they are learned, listed, corrected and forgotten: checked, within the quota, and in the audit.

Each keeps the label of its source for ever. It is known to readers that its label flows to; to all others it does not
exist (law `no_read_up`). A memory is not changed: one that corrects another replaces it for those who may know of both.
The rows of the audit that tell of a change name the memory and hold nothing of its text.
"""

import hashlib
import heapq
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from bot.core.errors import CursorError, DedupeConflictError, NotFoundError, RequestError
from bot.core.invisible import spelled
from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.memories import LONGEST_DOMAIN, LONGEST_TEXT, MOST_CORRECTIONS, Memory, MemoryState
from bot.sessions.ports.knowledge import MemoryStore
from bot.sessions.refs import Ref
from bot.sessions.visibility import LONGEST_ID
from policy.labels import Label

WORDLESS: Final = "a memory needs a text"
TOO_LONG: Final = f"a memory has at most {LONGEST_TEXT} characters"
DOMAIN_TOO_LONG: Final = f"the name of a domain has at most {LONGEST_DOMAIN} characters"
DOMAIN_UNSEEN: Final = "the name of a domain is one line, and each of its characters shows"
TOO_OFTEN: Final = f"this was corrected {MOST_CORRECTIONS} times"
LEARN_ANEW: Final = "forget it, and learn what is right anew"
NOT_YOURS: Final = "only who taught the chat this, or an admin, forgets or corrects it here"
LISTED: Final = 20
"""Memories that a page shows if it does not say."""

_ID: Final = 12
_PAGE: Final = 200
"""Memories of a label that are read at once."""


@dataclass(frozen=True, slots=True)
class Learner:
    """The teacher of a memory: whose memory it is to be, and the person who asks.

    `label` is that of the teaching words, and `reader` the highest label that they may know of, by which they name
    memories to correct. `decides` tells that they may also change memories that others taught. `sid` is the session
    that learns, empty for a person's command. `by_agent` tells that an agent does, and `authors` are the people besides
    whose words it has read. `refs` are the sources of the teaching words.
    """

    principal: str
    asker: str
    label: Label
    reader: Label
    decides: bool = True
    sid: str = ""
    by_agent: bool = False
    authors: tuple[str, ...] = ()
    refs: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """Memories, newest first; `cursor` asks for the next page, empty at the end."""

    memories: tuple[Memory, ...]
    cursor: str = ""


class MemoryKeeper:
    """Keeps memories. At most `most` memories are kept per principal and label.

    `now` is the store's clock, in milliseconds since the epoch.
    """

    def __init__(self, memories: MemoryStore, *, now: Callable[[], int], most: int) -> None:
        self._memories = memories
        self._now = now
        self._most = most

    async def learn(self, learner: Learner, text: str, key: str, *, domain: str = "") -> Memory:
        """Keep a memory, with the label of its source; the same `key` again is the same memory.

        Raises:
            RequestError: it has no words, or too many.
            DedupeConflictError: the key came with something else.
            FullError: as many are kept as may.
            StoreError: it cannot be kept.
        """
        made = _made(learner, learner.label, text, key, domain=domain, now=self._now())
        kept = await self._memories.learn(made, self._most, (row(made, learner.asker, "learn"),))
        _require_same(kept, learner.reader, text, domain)
        return kept

    async def correct(self, learner: Learner, name: str, text: str, key: str, *, domain: str | None = None) -> Memory:
        """Keep something in the place of a memory; the same `key` again is the same memory.

        If the new label adds nothing to the old one's, the new memory has the old label and replaces the old one for
        all. Else it has both labels joined, and the old one stays as it is for those below. So text that an attacker
        may have written does not become TRUSTED by replacing a TRUSTED one.

        Args:
            learner: who corrects.
            name: the id of the memory that is corrected.
            text: the corrected text.
            key: a repeated call with it makes the same memory.
            domain: its subject; None for the old one's.

        Raises:
            NotFoundError: there is none that they may know of, or it does not count any more.
            RequestError: it has no words, or too many, somebody else taught the old one, or it was corrected too often.
            DedupeConflictError: the key came with something else.
            FullError: as many are kept as may.
            StoreError: it cannot be kept.
        """
        known = await self._known(learner.principal, learner.reader, (memory_id(key), name))
        if memory_id(key) in known:
            _require_same(known[memory_id(key)], learner.reader, text, domain)
            return known[memory_id(key)]
        old = known.get(name)
        if old is None or old.state is not MemoryState.KEPT:
            raise NotFoundError
        _require_theirs(old, learner.asker, decides=learner.decides)
        about = old.domain if domain is None else domain
        # It is later than the corrected memory on every clock: a listing meets it first.
        now = max(self._now(), old.learned_at + 1)
        made = _made(learner, old.label.join(learner.label), text, key, domain=about, now=now)
        made = replace(made, corrects=old.id, corrections=old.corrections + 1)
        if made.corrections > MOST_CORRECTIONS:
            raise RequestError(TOO_OFTEN, next_step=LEARN_ANEW)
        kept = await self._memories.learn(made, self._most, (row(made, learner.asker, "correct", corrects=old.id),))
        _require_same(kept, learner.reader, text, domain)
        return kept

    async def find(self, principal: str, reader: Label, name: str) -> Memory:
        """Return a memory by its id, also one that was corrected or forgotten.

        Raises:
            NotFoundError: there is none that they may know of.
            StoreError: the store cannot be used.
        """
        found = (await self._known(principal, reader, (name,))).get(name)
        if found is None:
            raise NotFoundError
        return found

    async def forget(self, principal: str, reader: Label, name: str, *, actor: str, decides: bool = True) -> Memory:
        """Erase the words of a memory for good, and those of all memories that it replaces for the same readers.

        Args:
            principal: whose memory.
            reader: the label of the person who has it forgotten.
            name: its id.
            actor: the person who has it forgotten.
            decides: whether they may also have memories forgotten that others taught.

        Returns the rest of it, without its words.

        Raises:
            NotFoundError: there is none that they may know of.
            RequestError: another person taught it, or one that would be erased with it.
            StoreError: the store cannot be changed.
        """
        found = await self.find(principal, reader, name)
        erased = {found.id: found}
        last = found
        while last.corrects and last.corrects not in erased:
            before = (await self._known(principal, reader, (last.corrects,))).get(last.corrects)
            if before is None or before.label.secrecy != found.label.secrecy:
                break
            erased[before.id] = last = before
        for memory in erased.values():
            _require_theirs(memory, actor, decides=decides)
        # The store erases those of the same label; an UNTRUSTED one may correct one that is TRUSTED.
        before_it: Label | None = None
        for memory in erased.values():
            if memory.state is not MemoryState.FORGOTTEN and memory.label != before_it:
                await self._forget(memory, actor)
                before_it = memory.label
        return await self.find(principal, reader, name)

    async def listed(self, principal: str, reader: Label, *, after: str = "", limit: int = LISTED) -> MemoryPage:
        """Return memories of a principal that a reader may know of, newest first.

        Args:
            principal: whose memories.
            reader: the reader's label.
            after: the cursor of the page before, empty for the first page.
            limit: how many are returned at most.

        Raises:
            CursorError: the cursor is of no page that they may know of.
            StoreError: the store cannot be read.
        """
        last = (await self._known(principal, reader, (after,))).get(after)
        if after and last is None:
            raise CursorError
        shown = list[Memory]()
        async with aclosing(self.every(principal, reader)) as found:
            async for memory in found:
                # Its place is told by its time and id, which stay when it was corrected or forgotten meanwhile.
                if last is not None and _place(memory) <= _place(last):
                    continue
                if len(shown) == limit:
                    return MemoryPage(tuple(shown), shown[-1].id)
                shown.append(memory)
        return MemoryPage(tuple(shown))

    async def every(self, principal: str, reader: Label) -> AsyncGenerator[Memory]:
        """Yield all memories of a principal that a reader may know of, newest first, without corrected ones.

        Raises StoreError.
        """
        heads = list[tuple[tuple[int, str], int, Memory]]()
        versions = await self._memories.versions(principal)
        labels = sorted((label for label, version in versions.items() if version and label.within(reader)), key=str)
        streams = [self._of(principal, label) for label in labels]
        corrected = set[str]()

        async def push(number: int) -> None:
            async for head in streams[number]:
                # A memory that was corrected itself still precedes the memory of another label that it corrects.
                corrected.add(head.corrects)
                if head.state is MemoryState.KEPT:
                    heapq.heappush(heads, (_place(head), number, head))
                    return

        try:
            for number in range(len(streams)):
                await push(number)
            while heads:
                _, number, memory = heapq.heappop(heads)
                await push(number)
                if memory.id not in corrected:
                    yield memory
        finally:
            for stream in streams:
                await stream.aclose()

    async def recalled(self, principal: str, reader: Label, ids: Collection[str], key: str) -> None:
        """Count that a session that has read `reader` recalled memories, once for `key`. Raises StoreError."""
        await self._memories.count_use(principal, reader, ids, key)

    async def uses(self, principal: str, reader: Label, name: str) -> int:
        """Return how often a memory was recalled, by sessions that a reader may know of. Raises StoreError."""
        labels = [label for label in await self._memories.versions(principal) if label.within(reader)]
        return (await self._memories.uses(principal, labels, (name,))).get(name, 0)

    async def _forget(self, memory: Memory, actor: str) -> None:
        await self._memories.forget(memory, (row(memory, actor, "forget"),))

    async def _of(self, principal: str, label: Label) -> AsyncGenerator[Memory]:
        """Yield the memories of a label that were not forgotten, the newest first, by when they changed last."""
        before, more = 0, True
        while more:
            page = await self._memories.page(principal, label, before, _PAGE)
            for memory in page.changed:
                if memory.state is not MemoryState.FORGOTTEN:
                    yield memory
            before, more = page.version, page.more

    async def _known(self, principal: str, reader: Label, names: Collection[str]) -> Mapping[str, Memory]:
        """Return memories by id, as far as they are there and a reader may know of them."""
        asked = [name for name in names if name and len(name) <= LONGEST_ID]
        if not asked:
            return {}
        labels = [label for label, version in (await self._memories.versions(principal)).items() if version]
        visible = [label for label in labels if label.within(reader)]
        found = await self._memories.memories(principal, dict.fromkeys(visible, asked)) if visible else ()
        return {memory.id: memory for memory in found}


def _place(memory: Memory) -> tuple[int, str]:
    """Return where a memory stands in a listing."""
    return -memory.learned_at, memory.id


def row(memory: Memory, actor: str, done: str, **more: str) -> AuditRow:
    """Return the row of the audit about an action on a memory."""
    facts: dict[str, str | bool] = {
        "do": done,
        "memory": memory.id,
        "principal": memory.principal,
        "label": str(memory.label),
        "by_agent": memory.by_agent,
    }
    return AuditRow("memory", actor, {**facts, **more})


def _require_theirs(memory: Memory, actor: str, *, decides: bool) -> None:
    if not decides and memory.asker != actor:
        raise RequestError(NOT_YOURS)


def _require_same(kept: Memory, reader: Label, text: str, domain: str | None) -> None:
    """Raise DedupeConflictError if another memory is kept under a key, as far as a reader may be told.

    Of one that was forgotten nothing is left to compare.
    """
    if kept.state is MemoryState.FORGOTTEN or not kept.label.within(reader):
        return
    if kept.text != text or domain not in {None, kept.domain}:
        raise DedupeConflictError


def memory_id(key: str) -> str:
    """Return the id of the memory that is learned under a key."""
    return f"mem_{hashlib.sha256(key.encode()).hexdigest()[:_ID]}"


def _made(learner: Learner, label: Label, text: str, key: str, *, domain: str, now: int) -> Memory:
    """Return a memory as it is wanted. Raises RequestError: it has no words, or too many."""
    if not text.strip():
        raise RequestError(WORDLESS)
    if len(text) > LONGEST_TEXT:
        raise RequestError(TOO_LONG)
    if len(domain) > LONGEST_DOMAIN:
        raise RequestError(DOMAIN_TOO_LONG)
    if spelled(domain) != domain or not domain.isprintable():
        raise RequestError(DOMAIN_UNSEEN)
    return Memory(
        id=memory_id(key),
        principal=learner.principal,
        label=label,
        text=text,
        learned_at=now,
        asker=learner.asker,
        domain=domain,
        by_agent=learner.by_agent,
        sid=learner.sid,
        authors=learner.authors,
        refs=learner.refs,
    )
