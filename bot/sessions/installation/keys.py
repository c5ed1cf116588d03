"""The keys that an installation uses, by their names: all its processes have them, on any machine.

A name is a keyed digest of a constant (`bot.core.ids.key_name`), which tells nothing of the key. The store keeps the
names that the processes agreed on. A process with other keys would sign rows that the others refuse, name sessions
that they do not find, and keep values that they cannot read.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from bot.core.errors import OtherKeysError


class KeyUse(StrEnum):
    """The use of a key."""

    AUDIT = "audit"
    SESSION = "session"
    VAULT = "vault"


@dataclass(frozen=True, slots=True)
class InstallationKeys:
    """The names of keys, the newest of each use first.

    Args:
        audit: Those that sign or signed the audit.
        session: Those that name or named sessions.
        vault: Those that encrypt the values of adapters; an older one is of no use once all are encrypted anew.
        retired: The audit keys that were retired.
        place: The data directory and the machine of the process that put them at the store, for people.
    """

    audit: tuple[str, ...]
    session: tuple[str, ...]
    vault: tuple[str, ...]
    retired: frozenset[str] = frozenset()
    place: str = ""

    def of(self, use: KeyUse) -> tuple[str, ...]:
        """Return the names of the keys of one use, the newest first."""
        match use:
            case KeyUse.AUDIT:
                return self.audit
            case KeyUse.SESSION:
                return self.session
            case KeyUse.VAULT:
                return self.vault

    @property
    def compared(self) -> "InstallationKeys":
        """These names without the place."""
        return replace(self, place="")


def agreed(own: InstallationKeys, known: InstallationKeys | None) -> InstallationKeys:
    """Return the keys of the installation once a process with its `own` keys is one of it; `known` are those before.

    A process may bring newer keys, if it has all the older ones as well, and audit keys that were retired.

    Raises OtherKeysError: it lacks a key, uses an older one, or does not know that one was retired.
    """
    if known is None:
        return own
    found = {use: _agreed(use, own.of(use), known.of(use), known.place) for use in KeyUse}
    if lacking := known.retired & set(own.audit) - own.retired:
        name = min(lacking)
        raise OtherKeysError(
            f"the audit key `{name}` was retired, and this data directory does not know it",
            next_step=f"copy `retired-keys/{name}` from {known.place}",
        )
    return InstallationKeys(
        audit=found[KeyUse.AUDIT],
        session=found[KeyUse.SESSION],
        vault=found[KeyUse.VAULT],
        retired=known.retired | own.retired,
        place=own.place,
    )


def _agreed(use: KeyUse, own: tuple[str, ...], known: tuple[str, ...], place: str) -> tuple[str, ...]:
    # The vault's values are encrypted anew under the newest key, and nothing needs the older ones after that.
    needed = known[:1] if use is KeyUse.VAULT else known
    lacking = next((name for name in needed if name not in own), None)
    if lacking is not None:
        raise OtherKeysError(
            f"the {use} key `{lacking}` of this installation is not here, the newest one here is `{own[0]}`",
            next_step=f"copy the files of `keys` from {place}, or name the key in LOCKGATE_{use.upper()}_KEY; "
            "if it is lost, run `lockgate keys adopt`",
        )
    if own[0] in known[1:]:
        raise OtherKeysError(
            f"the {use} key `{own[0]}` is used here, and the newest of this installation is `{known[0]}`",
            next_step=f"put `{known[0]}` first, as it is in {place}",
        )
    if own[0] == known[0] and (use is KeyUse.VAULT or set(own) == set(known)):
        return known
    return own
