"""The secrets of one installation: its own keys, and what its tools use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bot import audit
from bot.config.model import Config
from bot.secrets import Keyring

AUDIT_KEY_VARIABLE: Final = "LOCKGATE_AUDIT_KEY"
SESSION_KEY_VARIABLE: Final = "LOCKGATE_SESSION_KEY"


@dataclass(frozen=True, slots=True)
class Secrets:
    """The installation's secrets: `audit` chains the records, `session` makes session ids, tools use the `keyring`."""

    audit: bytes
    session: bytes
    keyring: Keyring

    @staticmethod
    def load(config: Config, environment: Mapping[str, str]) -> "Secrets":
        """Return them: keys from the environment, else from files in the data directory, made at need.

        Raises OperatorError: one of them cannot be read or made, or a secret of the configuration is missing.
        """
        folder = config.data_dir / "keys"

        def secret(variable: str, name: str) -> bytes:
            written = environment.get(variable)
            return audit.parse_key(written) if written else audit.load_or_create_key(folder / name)

        return Secrets(
            secret(AUDIT_KEY_VARIABLE, "audit"),
            secret(SESSION_KEY_VARIABLE, "session"),
            Keyring.load(config.secrets, environment, config.folder),
        )
