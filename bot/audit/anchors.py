"""The audit chains of an installation: read, checked, and their heads kept outside the store.

`bot.audit.chain` defines a chain and its check; this module combines the store's records with the file of anchors. It
writes to no chain.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

from bot.audit.chain import EMPTY, AnchorFile, Broken, ChainCheck, Head, Intact, OlderKey, unlike, verify
from bot.audit.keys import RetiredKeys, older_keys
from bot.core.errors import DiskError, OperatorError, SchemaError, StoreError
from bot.core.keys import KeySeries
from bot.sessions.audit import AuditRecord
from bot.sessions.ports.losses import LossStore
from bot.sessions.ports.people import AuditStore

OUTSIDE: Final = "audit"
"""The chain for decisions outside any session."""

UNANCHORED: Final = "the anchors cannot be kept"
ANCHORED: Final = "the anchors are kept again"
_LOGGER: Final = logging.getLogger(__name__)
_ANCHOR_SECONDS: Final = 10.0
_PAGE: Final = 1000
"""The most records of a chain that are read at once."""

_TOGETHER: Final = 2000
"""The most heads that a walk keeps in memory before it writes them down."""


class AnchoredChains:
    """The chains of a store, the anchors in a file, and the key that both are made with."""

    def __init__(
        self, store: AuditStore, anchors: Path, key: bytes | KeySeries, losses: LossStore | None = None
    ) -> None:
        """Take the store; `losses` hears of a chain that ends before its anchor."""
        self._store, self._losses = store, losses
        self.keys = KeySeries.of(key)
        self.retired = RetiredKeys(anchors.parent, self.keys)
        self._anchors = AnchorFile(anchors, self._accepted)

    async def anchored(self) -> Mapping[str, Head]:
        """Return the newest anchored head of every chain. Raises OperatorError: the file was tampered with."""
        return await asyncio.to_thread(self._anchors.heads)

    async def names(self) -> frozenset[str]:
        """Return the chains that the store or the anchors know of."""
        return frozenset({*await self.anchored(), *[chain async for chain, _head in self._store.heads()]})

    async def records(self, chain: str, after: int = 0) -> AsyncIterator[AuditRecord]:
        """Walk a chain's records with n > `after`, oldest first."""
        while page := await self._store.records(chain, after=after, limit=_PAGE):
            for record in page:
                yield record
            if len(page) < _PAGE:
                # Most chains are short: the question for more would take as long as the answer.
                return
            after = page[-1].n

    async def checked(self, chain: str) -> AsyncIterator[AuditRecord | Broken]:
        """Walk a chain's records, oldest first, as long as they hold; a defect is the last that is yielded.

        Records that are added meanwhile are left out. Nothing is kept, so that a chain may have any length.
        """
        anchor = (await self.anchored()).get(chain, EMPTY)
        try:
            head = await self._store.head(chain)
            check, n = ChainCheck(chain, anchor, await asyncio.to_thread(self._signers, chain)), 0
            async for record in self.records(chain):
                if record.n > head[0]:
                    break
                broken = check.follow(record)
                if broken is not None:
                    yield broken
                    return
                n = record.n
                yield record
        except SchemaError:
            yield Broken(1, "one of its records cannot be read")
            return
        if n < anchor[0] or n < head[0]:
            ended = check.ended(head)
            if isinstance(ended, Broken):
                yield ended

    async def anchors_in(self, files: Sequence[Path]) -> tuple[Mapping[str, Head], ...]:
        """Return the newest anchored heads in files of other machines. Raises OperatorError: one cannot be used."""

        def read() -> Iterator[Mapping[str, Head]]:
            for path in files:
                if not path.is_file():
                    raise OperatorError(f"there is no file of anchors `{path}`")
                yield AnchorFile(path, self._accepted).heads()

        return await asyncio.to_thread(lambda: tuple(read()))

    async def verify(self, chain: str, beside: Sequence[Mapping[str, Head]] = ()) -> Intact | Broken:
        """Check a chain against the store's head and the newest anchor; an unreadable record breaks it.

        `beside` are the heads that other machines anchored.
        """
        anchors = [heads[chain] for heads in beside if chain in heads]
        anchor = (await self.anchored()).get(chain, EMPTY)
        try:
            head = await self._store.head(chain)
        except SchemaError:
            return Broken(1, "its head in the store cannot be read")
        records, unread = await self._readable(chain)
        if await self._store.head(chain) != head:
            # It grew while it was read: records after the compared head are for the next time.
            records = records[: head[0]]
        # A long chain takes its time.
        found = await asyncio.to_thread(self._verified, chain, records, head, anchor)
        if isinstance(found, Intact):
            found = next(filter(None, (unlike(records, one) for one in anchors)), found)
        if unread and (isinstance(found, Intact) or found.n >= unread):
            return Broken(unread, f"record {unread} cannot be read")
        return found

    def _verified(self, chain: str, records: Sequence[AuditRecord], head: Head, anchor: Head) -> Intact | Broken:
        return verify(chain, records, claimed=head, anchor=anchor, signers=self._signers(chain))

    def _signers(self, chain: str) -> tuple[OlderKey, ...]:
        """Return the keys that may have signed a chain's records: first the one in force."""
        self.keys.reload()
        keys = self.keys.all
        older = tuple(older_keys(self.retired.heads(), keys, chain)) if keys[1:] else ()
        return (OlderKey(keys[0]), *older)

    def _accepted(self) -> Sequence[bytes]:
        """Return the keys that may have signed the anchors; another process may have made a newer one."""
        self.keys.reload()
        return self.retired.valid()

    async def rotate(self) -> None:
        """Put a new audit key in force, and sign with it all that is kept outside the store. Raises OperatorError."""
        await asyncio.to_thread(self._rotated)

    def _rotated(self) -> None:
        self.keys.rotate()
        self.retired.renew()
        self._anchors.renew()

    async def retire(self, keys: Sequence[bytes]) -> int:
        """Retire older keys: they prove only the rows that are there now. Return the number of chains.

        Raises:
            OperatorError: the heads cannot be kept.
            StoreError: the heads cannot be read.
        """
        heads = {chain: head async for chain, head in self._store.heads()}
        await asyncio.to_thread(self._retired, keys, heads)
        return len(heads)

    def _retired(self, keys: Sequence[bytes], heads: Mapping[str, Head]) -> None:
        # The lines of an older key are signed anew while that key still counts.
        self.retired.renew()
        self._anchors.renew()
        self.retired.retire(keys, heads)

    async def _readable(self, chain: str) -> tuple[list[AuditRecord], int]:
        """Return a chain's records up to the first unreadable one, and the number of that, 0 if there is none."""
        found = list[AuditRecord]()
        try:
            async for record in self.records(chain):
                found.append(record)
        except SchemaError:
            # The readable records of its page were not returned.
            with suppress(SchemaError):
                while page := await self._store.records(chain, after=len(found), limit=1):
                    found += page
            return found, len(found) + 1
        return found, 0

    async def newest(self, chain: str, count: int) -> tuple[AuditRecord, ...]:
        """Return the newest records of a chain, at most `count`, oldest first; none for an unknown chain."""
        head, _hash = await self._store.head(chain)
        return await self._store.records(chain, after=max(0, head - count), limit=count)

    async def record(self, chain: str, n: int) -> AuditRecord | None:
        """Return one record of a chain, None if there is none of that number."""
        found = await self._store.records(chain, after=n - 1, limit=1) if n > 0 else ()
        return found[0] if found and found[0].n == n else None

    async def anchor(self) -> None:
        """Keep the heads outside the store that this process wrote or read since the last time."""
        await self._keep(self._store.moved())

    async def _keep(self, heads: Mapping[str, Head], behind: AbstractSet[str] = frozenset()) -> None:
        await asyncio.to_thread(self._anchors.record, heads, behind)
        self._store.anchored(heads)

    async def _walked(self, heads: dict[str, Head]) -> None:
        """Keep heads that were found on a walk; a chain that ends before its anchor lost records with its store."""
        anchored, behind = await self.anchored(), set[str]()
        for chain in [chain for chain, head in heads.items() if head[0] < anchored.get(chain, EMPTY)[0]]:
            if self._losses is not None and isinstance(await self.verify(chain), Broken):
                await self._losses.witness(chain, audit=anchored[chain])
            found = await self.verify(chain)
            if isinstance(found, Intact) and found.lost:
                heads[chain] = (found.records, found.hash)
                behind.add(chain)
        await self._keep(heads, behind)

    async def anchoring(self, seconds: float = _ANCHOR_SECONDS) -> None:
        """Anchor the heads that this process wrote, every so many seconds, until cancelled.

        A warning is logged when the file cannot be written. Raises OperatorError: the file was tampered with.
        """
        broken = False
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.anchor()
            except DiskError as error:
                # Work continues: the heads are anchored once there is room again.
                if not broken:
                    facts = {"subject": "anchors", "cause": str(error), "step": error.next_step}
                    _LOGGER.warning(UNANCHORED, extra=facts)
                broken = True
                continue
            if broken:
                _LOGGER.warning(ANCHORED)
            broken = False

    async def walking(self, seconds: float = _ANCHOR_SECONDS) -> None:
        """Anchor the heads of all chains again and again, at a low rate, until cancelled.

        Every process anchors the heads it wrote itself: this is for the heads of a process that was killed before it
        did. The next walk begins `seconds` after the last one ended. Raises OperatorError: the file was tampered with.
        """
        while True:
            await asyncio.sleep(seconds)
            # Where they cannot be kept, `anchoring` reports that, and the next walk tries again.
            with suppress(StoreError, DiskError):
                heads = dict[str, Head]()
                async for chain, head in self._store.heads(idly=True):
                    heads[chain] = head
                    if len(heads) == _TOGETHER:
                        await self._walked(heads)
                        heads = {}
                await self._walked(heads)
