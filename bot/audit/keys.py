"""The audit keys of an installation: the newest signs, older ones still prove their rows.

Rows do not name their key, so a chain goes on under another one without a change of its form. A key that is retired
proves nothing but the rows that were there at that moment: the head of each chain is kept then, signed by the newest
key.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bot.audit import chain
from bot.core.ids import key_name
from bot.core.keys import KeySeries

RETIRED: Final = "retired-keys"
"""The folder of the data directory with the heads at the moments when keys were retired, a file for each key."""


class RetiredKeys:
    """Which keys are retired, and the heads of all chains at that moment. It blocks on the disk."""

    def __init__(self, data_dir: Path, keys: KeySeries) -> None:
        self._folder, self._keys = data_dir / RETIRED, keys

    @property
    def keys(self) -> KeySeries:
        """The keys, retired or not."""
        return self._keys

    def names(self) -> frozenset[str]:
        """Return the names of the retired keys."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return frozenset(path.name for path in found if path.suffix != ".lock" and not path.name.startswith("."))

    def valid(self) -> tuple[bytes, ...]:
        """Return the keys that are not retired, the newest first."""
        if not self._keys.all[1:]:
            return self._keys.all
        retired = self.names()
        return tuple(key for key in self._keys.all if key == self._keys.current or key_name(key) not in retired)

    def heads(self) -> Mapping[bytes, Mapping[str, chain.Head]]:
        """Return for each retired key the heads at that moment. Raises OperatorError: a file was tampered with."""
        return {key: dict(self._file(key).heads()) for key in self._keys.all if key_name(key) in self.names()}

    def unretired(self) -> tuple[bytes, ...]:
        """Return the older keys that may still sign."""
        return self.valid()[1:]

    def retire(self, keys: Sequence[bytes], heads: Mapping[str, chain.Head]) -> None:
        """Retire keys at these heads. Raises OperatorError."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for key in keys:
            self._file(key).write(heads)

    def renew(self) -> None:
        """Sign the heads of all retired keys with the newest key. Raises OperatorError."""
        for key in self._keys.all:
            if key_name(key) in self.names():
                self._file(key).renew()

    def _file(self, key: bytes) -> chain.AnchorFile:
        return chain.AnchorFile(self._folder / key_name(key), self.valid)


def older_keys(
    retired: Mapping[bytes, Mapping[str, chain.Head]], keys: Sequence[bytes], name: str
) -> Iterator[chain.OlderKey]:
    """Yield the older keys of a chain, each with the head at which it was retired, None for one that was not."""
    for key in keys[1:]:
        heads = retired.get(key)
        yield chain.OlderKey(key, None if heads is None else heads.get(name, chain.EMPTY))
