"""Making the keys here those of the installation, after others were lost.

Values in the vault that no key here opens are lost with their key. They are deleted, since a value that cannot be read
stops its adapter for ever. An adapter that forgot who was seen in a chat does not know all readers that it knew, so no
chat's members are vouched for any more. The taint of a connection is the highest label (law `unknown_is_worst`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.core.errors import OperatorError, StoreError
from bot.operations.processes.shared_keys import SharedKeys
from bot.policy_state import ChangeBase, Changing, PolicyReloader
from bot.sessions.audit import AuditRow
from bot.sessions.installation.keys import InstallationKeys
from bot.sessions.ports.store import Store
from channels.port import ChannelVault, LostValueError, VaultError
from policy.document.model import Document
from policy.document.overrides import AccessChange, ChatPlace, Placing

Instead = Callable[[str], tuple[bytes, float] | None]

_OTHERS: Final = "other processes use the store, and may have the keys"
_COPY: Final = "copy `keys` from their data directories; if no machine has the keys, stop all processes and repeat it"


@dataclass(frozen=True, slots=True)
class AdoptedKeys:
    """The keys of the installation now, how many values of the vault were lost, and the chats without a voucher now."""

    keys: InstallationKeys
    lost: int
    unvouched: tuple[str, ...]


class KeyAdopter:
    """Makes the keys of this process those of the installation.

    `document` is the policy in force. `instead` returns the value and its life in seconds that take the place of a lost
    value of this name, None for one that is deleted.
    """

    def __init__(
        self,
        *,
        store: Store,
        keys: SharedKeys,
        vault: ChannelVault,
        reloader: PolicyReloader,
        document: Callable[[], Document],
        instead: Instead,
    ) -> None:
        self._store, self._keys, self._vault = store, keys, vault
        self._reloader, self._document, self._instead = reloader, document, instead

    async def adopt(self, actor: str) -> AdoptedKeys:
        """Adopt the keys here, and audit it.

        Raises:
            OperatorError: other processes use the store, which may have the keys that seem lost.
            StoreError: the store cannot be read or written.
        """
        if await self._store.backups.others():
            raise OperatorError(_OTHERS, next_step=_COPY)
        adopted = await self._keys.adopt(self._store.audit, actor)
        try:
            lost = await self._lost()
            # Before any is deleted: a command that is killed here and repeated would find fewer.
            unvouched = await self._unvouched(actor) if lost else ()
            for name in lost:
                await self._replace(name)
        except VaultError as error:
            raise StoreError(str(error)) from None
        return AdoptedKeys(adopted, len(lost), unvouched)

    async def _lost(self) -> list[str]:
        """Return the names of the values that no key here opens. Raises VaultError."""
        found = list[str]()
        for name in await self._vault.names(""):
            try:
                await self._vault.get(name)
            except LostValueError:
                found.append(name)
        return found

    async def _replace(self, name: str) -> None:
        instead = self._instead(name)
        if instead is None:
            await self._vault.delete(name)
        else:
            await self._vault.put(name, *instead)

    async def _unvouched(self, actor: str) -> tuple[str, ...]:
        """Take back the word for the members of all chats; return their names. Raises StoreError."""
        chats = [chat for chat in self._document().chats.values() if chat.members_vouched]
        places = [ChatPlace(chat.channel, chat.workspace, chat.chat) for chat in chats]

        def made(known: ChangeBase) -> Changing:
            rows = (AuditRow("classify", actor, {"chat": str(place), "vouched": False}) for place in places)
            before = known.overrides.places
            change = {place: replace(before.get(place, Placing()), vouched=False) for place in places}
            return Changing(AccessChange(places=change), tuple(rows))

        if places:
            await self._reloader.change(made)
        return tuple(sorted(map(str, places)))
