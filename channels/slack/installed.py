"""Which workspaces installed the bot, and the token each gave it, kept in the vault.

A workspace's id is its own in all of Slack, so it alone finds an installation; the organisation it belongs to is kept
beside. Tokens come out of here to make a client with, and go nowhere else.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Final

from channels.base import Vault

_PREFIX: Final = "slack/installed/"


@dataclass(frozen=True, slots=True)
class Installation:
    """A workspace with the bot in it: `bot` is the bot's account there, `enterprise` the organisation if it has one."""

    team: str
    token: str = field(repr=False)
    bot: str
    enterprise: str = ""


class Installations:
    """The installations of all workspaces. Every method raises VaultError."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def of(self, team: str) -> Installation | None:
        """Return a workspace's installation, None if it has none."""
        kept = await self._vault.get(_PREFIX + team)
        return None if kept is None else Installation(**json.loads(kept))

    async def keep(self, installation: Installation) -> None:
        """Keep an installation, in place of an earlier one of that workspace."""
        await self._vault.put(_PREFIX + installation.team, _written(installation))

    async def forget(self, installation: Installation) -> None:
        """Forget an installation, unless another took its place meanwhile."""
        await self._vault.swap(_PREFIX + installation.team, _written(installation), None)

    async def teams(self) -> tuple[str, ...]:
        """Return the workspaces that have one."""
        return tuple(name.removeprefix(_PREFIX) for name in await self._vault.names(_PREFIX))


def _written(installation: Installation) -> bytes:
    return json.dumps(asdict(installation), sort_keys=True).encode()
