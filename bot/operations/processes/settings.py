"""The settings of each serving process, for the doctor: processes of one store are to have the same.

Each process keeps digests of its settings in the vault, for as long as it lives. The policy is not among them: all
processes have one in force (`bot.policy_state`). Settings that may differ from machine to machine are left out.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

import anyio

from bot.config.model import Config
from bot.config.shown import sections
from bot.core.ids import key_name
from channels.port import ChannelVault, LostValueError, VaultError

_PREFIX: Final = "processes/"
_FIRST_SECONDS: Final = 2.0
_SECONDS: Final = 20.0
_LAST_SECONDS: Final = 2.0
_LIFE: Final = 60.0

_OWN: Final = ("data_dir", "logs.", "metrics.", "store.url")
_OWN_ENDS: Final = (".host", ".port", ".folder")
"""Settings of a machine, by the beginnings and the ends of their paths."""

_TOKENS: Final = frozenset(
    {
        *("channels.telegram.token", "channels.telegram.webhook.secret", "channels.slack.token"),
        *("channels.slack.app_token", "channels.slack.http.secret", "channels.slack.install.client_secret"),
    }
)
"""Settings that name a variable, of which the values are compared."""


@dataclass(frozen=True, slots=True)
class OtherSettings:
    """A process, as people find it, and the paths of its settings that differ from those here."""

    process: str
    paths: tuple[str, ...]


class ProcessSettings:
    """Keeps the settings of this process, which the store calls `name` and people find as `process`."""

    def __init__(
        self,
        vault: Callable[[], ChannelVault],
        config: Config,
        environment: Mapping[str, str],
        *,
        name: str,
        process: str,
    ) -> None:
        self._vault, self._key, self._process = vault, f"{_PREFIX}{name}", process
        self._config, self._environment = config, environment

    async def serve(self, after: float = _FIRST_SECONDS) -> None:
        """Keep them until cancelled, from some seconds `after` the start on: nothing of the start waits for them."""
        await asyncio.sleep(after)
        # It imports a library.
        vault = await asyncio.to_thread(self._vault)
        written = json.dumps({"process": self._process, "settings": self._digests()}).encode()
        try:
            while True:
                with suppress(VaultError):
                    await vault.put(self._key, written, _LIFE)
                await asyncio.sleep(_SECONDS)
        finally:
            with anyio.move_on_after(_LAST_SECONDS, shield=True), suppress(VaultError):
                await vault.delete(self._key)

    async def differing(self) -> tuple[OtherSettings, ...]:
        """Return the serving processes with other settings than those here; none while the store is away."""
        vault, own, found = self._vault(), self._digests(), list[OtherSettings]()
        with suppress(VaultError):
            for name in await vault.names(_PREFIX):
                # Those of a process with another key of the vault hide no others.
                with suppress(LostValueError):
                    kept = None if name == self._key else await vault.get(name)
                    found += [] if kept is None else _different(kept, own)
        return tuple(found)

    def _digests(self) -> dict[str, str]:
        """Return a digest of each setting by its path; that of a token is one of its value."""
        found = dict[str, str]()
        for one in (one for section in sections(self._config).values() for one in section):
            if one.path.startswith(_OWN) or one.path.endswith(_OWN_ENDS):
                continue
            value = self._environment.get(one.value, "") if one.path in _TOKENS else one.value
            found[one.path] = key_name(hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest())
        return found


def _different(kept: bytes, own: Mapping[str, str]) -> list[OtherSettings]:
    """Return a process whose kept settings differ from those here, nothing for one with the same."""
    told = cast("dict[str, object]", json.loads(kept))
    theirs = cast("dict[str, str]", told["settings"])
    paths = sorted(path for path in own.keys() | theirs.keys() if own.get(path) != theirs.get(path))
    return [OtherSettings(str(told["process"]), tuple(paths))] if paths else []
