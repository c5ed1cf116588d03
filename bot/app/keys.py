"""The secrets of one installation: its own keys, and those that its tools use."""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bot.audit.anchors import AnchoredChains
from bot.audit.keys import RetiredKeys
from bot.config.model import Config
from bot.core.clock import SystemClock
from bot.core.errors import OperatorError
from bot.core.ids import key_name
from bot.core.keys import KeySeries, load_or_create_key
from bot.operations.keys import KeyKeeper
from bot.operations.processes.shared_keys import SharedKeys
from bot.policy_state import machine
from bot.secrets import Keyring
from bot.sessions.ports.store import Store

if TYPE_CHECKING:
    from bot.store.redis_store import RedisStore

AUDIT_KEY_VARIABLE: Final = "LOCKGATE_AUDIT_KEY"
SESSION_KEY_VARIABLE: Final = "LOCKGATE_SESSION_KEY"
VAULT_KEY_VARIABLE: Final = "LOCKGATE_VAULT_KEY"

KEYS: Final = "keys"
"""Name of the folder of keys within the data directory."""

_VARIABLES: Final = MappingProxyType(
    {AUDIT_KEY_VARIABLE: "audit", SESSION_KEY_VARIABLE: "session", VAULT_KEY_VARIABLE: "vault"}
)


@dataclass(frozen=True, slots=True)
class Secrets:
    """The installation's secrets: `audit` chains the records, `session` makes session ids, tools use the `keyring`.

    The newest of `audit` signs, older ones still prove. The newest of `session` names new sessions, older ones find the
    sessions that began under them. The first of `vault` encrypts the adapters' values; the older
    ones after it still open earlier values.
    """

    audit: KeySeries
    session: KeySeries
    vault: tuple[bytes, ...]
    keyring: Keyring

    def tokens(self) -> tuple[bytes, ...]:
        """Return the keys of the tokens of programs, made from those for sessions, the newest first."""
        return tuple(hmac.digest(key, b"tokens of programs", hashlib.sha256) for key in self.session.all)

    async def follow(self) -> None:
        """Look now whether there is a newer session key. Raises OperatorError: it cannot be read."""
        await asyncio.to_thread(self.session.reload)

    @property
    def names(self) -> dict[str, str]:
        """The name of each newest key by its use; a name tells nothing of the key."""
        newest = {"audit": self.audit.current, "session": self.session.current, "vault": self.vault[0]}
        return {use: key_name(key) for use, key in newest.items()}

    @property
    def needed(self) -> dict[str, tuple[str, ...]]:
        """The names of all keys that the store needs, by their use, the newest first."""
        sessions = tuple(map(key_name, self.session.all))
        return {use: (name,) for use, name in self.names.items()} | {"session": sessions}

    @staticmethod
    def existing(config: Config, environment: Mapping[str, str]) -> "Secrets":
        """Return them as `load` does, but make none.

        Raises OperatorError: one of the keys is neither in the environment nor in a file.
        """
        for variable, name in _VARIABLES.items():
            if not environment.get(variable) and not (config.data_dir / KEYS / name).is_file():
                raise OperatorError(
                    f"there is no {name} key here",
                    next_step=f"put `keys/{name}` of the installation into `{config.data_dir / KEYS}`, "
                    f"or set {variable}",
                )
        return Secrets.load(config, environment)

    @staticmethod
    def load(config: Config, environment: Mapping[str, str]) -> "Secrets":
        """Return them: keys from the environment, else from files in the data directory, made at need.

        Raises OperatorError: one of them cannot be read or made, or a secret of the configuration is missing.
        """
        folder = config.data_dir / KEYS

        def series(variable: str, name: str) -> KeySeries:
            written = environment.get(variable)
            return KeySeries.parse(written) if written else KeySeries.read(folder, name)

        return Secrets(
            series(AUDIT_KEY_VARIABLE, "audit"),
            series(SESSION_KEY_VARIABLE, "session"),
            _vault(environment.get(VAULT_KEY_VARIABLE, ""), folder),
            Keyring.load(config.secrets, environment, config.folder),
        )


def shared_keys(secrets: Secrets, store: Store, retired: RetiredKeys, data_dir: Path) -> SharedKeys:
    """Return the comparison of a process's keys with those of the installation; people find them in its `data_dir`."""
    return SharedKeys(
        store.installation_keys,
        audit=secrets.audit,
        retired=retired,
        session=secrets.session,
        vault=secrets.vault,
        place=f"`{data_dir}` on {machine()}",
    )


def key_keeper(
    secrets: Secrets, store: "RedisStore", chains: AnchoredChains, agree: Callable[[], Awaitable[None]]
) -> KeyKeeper:
    """Return the part that lists and changes keys; `agree` tells the installation of changed ones."""
    return KeyKeeper(
        chains,
        store.audit,
        SystemClock(),
        secrets.names,
        sessions=secrets.session,
        agree=agree,
        rights=store.rights,
    )


def _vault(written: str, folder: Path) -> tuple[bytes, ...]:
    """Return the keys in an environment value, separated by commas, else the one in its file and the one before it."""
    if written:
        return KeySeries.parse(written).all
    before = folder / "vault.old"
    newest = load_or_create_key(folder / "vault")
    return (newest, load_or_create_key(before)) if before.exists() else (newest,)
