"""The taints of MCP connections over HTTP, kept for other processes: a client that lost one lost no knowledge by that.

A process that ends, and a proxy that sends a request to another process, make a client begin another connection. The
protocol has it do so by itself, without its program or its person, and its model goes on with the same context. So a
connection whose id is shown where it is not served passes its taint on. Connections of its token that begin within half
an hour have it from the start. Only the program's own `DELETE` ends a connection for good (ADR 0048).
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from channels.port import ChannelVault, VaultError
from policy.labels import PUBLIC, Label, parse

_PREFIX: Final = "mcp-connection/"
_LOST: Final = "/lost"
_DAY: Final = 24 * 60 * 60.0
_INHERITED: Final = 30 * 60.0
"""For how many seconds the taint of a lost connection counts for new ones."""

_TRIES: Final = 20


@dataclass(frozen=True, slots=True)
class TaintKey:
    """A connection: the id of the token it belongs to, and its own id, which stays secret."""

    owner: str
    connection: str

    @property
    def kept(self) -> str:
        """The name under which its taint is kept."""
        return f"{_PREFIX}{self.owner}/{hashlib.sha256(self.connection.encode()).hexdigest()}"

    @property
    def lost(self) -> str:
        """The name under which the taints of the token's lost connections are kept."""
        return f"{_PREFIX}{self.owner}{_LOST}"


class KeptTaints:
    """Keeps them in the vault. Every method raises VaultError."""

    def __init__(self, vault: ChannelVault) -> None:
        """Keep them there."""
        self._vault = vault

    async def keep(self, key: TaintKey, label: Label) -> None:
        """Keep the taint of a connection, before an answer raises it to that."""
        await self._vault.put(key.kept, str(label).encode(), _DAY)

    async def inherited(self, key: TaintKey) -> Label:
        """Return the taint that a connection begins with."""
        kept = await self._vault.get(key.lost)
        return PUBLIC if kept is None else parse(kept.decode())

    async def lost(self, key: TaintKey) -> None:
        """Pass the taint of a connection that is not served here on to the next ones; nothing for an unknown one."""
        kept = await self._vault.get(key.kept)
        if kept is None:
            return
        for _ in range(_TRIES):
            before = await self._vault.get(key.lost)
            label = parse(kept.decode()).join(PUBLIC if before is None else parse(before.decode()))
            if await self._vault.swap(key.lost, before, str(label).encode(), _INHERITED):
                return
        raise VaultError("too many connections of one token are lost at once")

    async def ended(self, key: TaintKey) -> None:
        """Forget a connection that its program ended."""
        await self._vault.delete(key.kept)


def unknown_taint(name: str, top: Label) -> tuple[bytes, float] | None:
    """Return the value that takes the place of one that nobody can read, and its life in seconds; None for another's.

    An unknown taint is the highest label there is (law `unknown_is_worst`).
    """
    if not name.startswith(_PREFIX):
        return None
    return str(top).encode(), _INHERITED if name.endswith(_LOST) else _DAY
