"""The secrets of one installation: its own keys, and those that its tools use."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.audit import chain
from bot.config.model import Config
from bot.secrets import Keyring

AUDIT_KEY_VARIABLE: Final = "LOCKGATE_AUDIT_KEY"
SESSION_KEY_VARIABLE: Final = "LOCKGATE_SESSION_KEY"
VAULT_KEY_VARIABLE: Final = "LOCKGATE_VAULT_KEY"


@dataclass(frozen=True, slots=True)
class Secrets:
    """The installation's secrets: `audit` chains the records, `session` makes session ids, tools use the `keyring`.

    The first of `vault` encrypts the adapters' values; the older ones after it still open earlier values.
    """

    audit: bytes
    session: bytes
    vault: tuple[bytes, ...]
    keyring: Keyring

    @property
    def tokens(self) -> bytes:
        """The key under which the store has the tokens of programs, made from that for sessions."""
        return hmac.digest(self.session, b"tokens of programs", hashlib.sha256)

    @staticmethod
    def load(config: Config, environment: Mapping[str, str]) -> "Secrets":
        """Return them: keys from the environment, else from files in the data directory, made at need.

        Raises OperatorError: one of them cannot be read or made, or a secret of the configuration is missing.
        """
        folder = config.data_dir / "keys"

        def secret(variable: str, name: str) -> bytes:
            written = environment.get(variable)
            return chain.parse_key(written) if written else chain.load_or_create_key(folder / name)

        return Secrets(
            secret(AUDIT_KEY_VARIABLE, "audit"),
            secret(SESSION_KEY_VARIABLE, "session"),
            _vault(environment.get(VAULT_KEY_VARIABLE, ""), folder),
            Keyring.load(config.secrets, environment, config.folder),
        )


def _vault(written: str, folder: Path) -> tuple[bytes, ...]:
    """Return the keys in an environment value, separated by commas, else the one in its file and the one before it."""
    if written:
        return tuple(chain.parse_key(key.strip()) for key in written.split(","))
    before = folder / "vault.old"
    newest = chain.load_or_create_key(folder / "vault")
    return (newest, chain.load_or_create_key(before)) if before.exists() else (newest,)
