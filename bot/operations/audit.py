"""Reading the audit: the newest rows of a chain, one row in full, and whether the chains hold.

The operator of an installation, who has its files, reads every row by its number. People in chats are readers with a
label: they see the rows that flow to it, see `bot.audit.visibility`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.audit.anchors import OUTSIDE, AnchoredChains
from bot.audit.chain import Broken, Intact
from bot.audit.visibility import AuditTrail, VisibleRow
from bot.core.errors import RequestError
from bot.sessions.audit import AuditRecord
from policy.labels import PUBLIC, Label


class DecisionNameError(RequestError):
    """The typed name is not one of a record."""

    code = "decision"


@dataclass(frozen=True, slots=True)
class CheckedChain:
    """A chain and whether it holds; for a reader with a label the result counts nothing.

    Without an anchor here nothing outside the store tells how long the chain was.
    """

    name: str
    result: Intact | Broken
    anchored: bool = True


@dataclass(frozen=True, slots=True)
class CheckedChains:
    """The checked chains, and the label of the result; `complete` tells that they are all chains."""

    chains: tuple[CheckedChain, ...]
    label: Label
    complete: bool

    @property
    def broken(self) -> dict[str, Broken]:
        """Those that do not hold, by name."""
        return {one.name: one.result for one in self.chains if isinstance(one.result, Broken)}

    @property
    def lost(self) -> dict[str, int]:
        """The last record that the store lost, by the name of its chain, of those that tell of it."""
        intact = ((one.name, one.result) for one in self.chains if isinstance(one.result, Intact))
        return {name: result.lost for name, result in intact if result.lost}

    @property
    def summary(self) -> str:
        """How many of them hold."""
        return f"{len(self.chains) - len(self.broken)} of {len(self.chains)} chains intact"

    @property
    def unanchored(self) -> int:
        """How many of them have no anchor in this data directory."""
        return sum(not one.anchored for one in self.chains)


class AuditReader:
    """Reads the audit, for the operator where `reader` is None."""

    def __init__(self, chains: AnchoredChains, trail: AuditTrail) -> None:
        self._chains = chains
        self._trail = trail

    async def newest(self, chain: str, count: int, reader: Label | None) -> tuple[VisibleRow, ...]:
        """Return the newest rows of a chain, at most `count` of them, oldest first. Raises StoreError."""
        if reader is None:
            return tuple(_row(chain, record) for record in await self._chains.newest(chain, count))
        found = list[VisibleRow]()
        async for row in self._trail.rows(chain, reader):
            found.append(row)
            if len(found) == count:
                break
        return tuple(reversed(found))

    async def row(self, name: str, reader: Label | None) -> VisibleRow | None:
        """Return a row by its name, None if there is none.

        Raises:
            StoreError: the store cannot be used.
            DecisionNameError: the operator's names are `CHAIN:N`.
        """
        if reader is not None:
            return await self._trail.find(name, reader)
        chain, number = numbered(name)
        record = await self._chains.record(chain, number)
        return None if record is None else _row(chain, record)

    async def checked(self, reader: Label | None, beside: Sequence[Path] = ()) -> CheckedChains:
        """Check chains: for the operator all of them, `beside` this machine's anchors by those in other files.

        Raises:
            OperatorError: a file of anchors cannot be read, or was tampered with.
            StoreError: the store cannot be used.
        """
        if reader is None:
            others = await self._chains.anchors_in(beside)
            names = sorted({OUTSIDE, *await self._chains.names(), *(name for heads in others for name in heads)})
            known = {name for heads in (await self._chains.anchored(), *others) for name in heads}
            whole = [CheckedChain(name, await self._chains.verify(name, others), name in known) for name in names]
            return CheckedChains(tuple(whole), PUBLIC, complete=True)
        visible = await self._trail.chains(reader)
        names = [OUTSIDE, *sorted(visible.names)]
        told = [CheckedChain(name, _uncounted(await self._chains.verify(name))) for name in names]
        return CheckedChains(tuple(told), visible.label, visible.complete)


def numbered(name: str) -> tuple[str, int]:
    """Return the chain and the number that an operator's name of a record is made of, `CHAIN:N`.

    Raises DecisionNameError: it is not such a name.
    """
    chain, _, number = name.rpartition(":")
    if not chain or not number.isascii() or not number.isdecimal() or len(number) > len(str(2**63)):
        raise DecisionNameError(f"`{name}` is not a decision")
    return chain, int(number)


def _row(chain: str, record: AuditRecord) -> VisibleRow:
    """Return a record under its operator's name, which tells how many there are."""
    return VisibleRow(f"{chain}:{record.n}", record, PUBLIC)


def _uncounted(result: Intact | Broken) -> Intact | Broken:
    """Return the result of a chain without the count of its rows."""
    return Intact(0, "") if isinstance(result, Intact) else Broken(0, "")
