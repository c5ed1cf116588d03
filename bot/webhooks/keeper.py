"""Programs' requests about their webhooks: make, list and enable them, replace secrets, repeat undelivered events.

A webhook of another program is as absent as one that never was. An undelivered event is listed while its program may
know of the session, and not counted otherwise (law `no_read_up`).
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bot.access.tokens import ApiCaller
from bot.core.errors import NotFoundError, RequestError
from bot.core.ids import Ids
from bot.operations.reading import SessionReader
from bot.sessions.audit import AuditRow
from bot.sessions.log.events import EventType, Visibility
from bot.sessions.ports.store import Store
from bot.sessions.webhooks import UNAVAILABLE, DeadEvent, ProgramWebhook
from bot.tools.web.address import AddressError, WebAddress, is_ip, is_public, parsed
from bot.webhooks.secrets import PromisedSecret, WebhookSecrets
from policy.labels import Label

_KNOWN: Final = frozenset({*EventType, UNAVAILABLE})


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """The settings of a webhook; no types and no sessions stand for all."""

    url: str
    level: Visibility
    types: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeWebhook:
    """A webhook with its secret, which is returned again only for the same key; then it was `known`."""

    webhook: ProgramWebhook
    secret: str = field(repr=False)
    known: bool = False


class WebhookKeeper:
    """Makes, changes and lists webhooks. A program may have `most`; `private` are addresses that are let through."""

    def __init__(
        self,
        store: Store,
        reading: SessionReader,
        secrets: WebhookSecrets,
        ids: Ids,
        *,
        most: int,
        private: frozenset[tuple[str, int]],
    ) -> None:
        self._store, self._reading = store, reading
        self.secrets, self._ids = secrets, ids
        self._most, self._private = most, private

    async def make(self, caller: ApiCaller, asked: WebhookRequest, key: str = "") -> MadeWebhook:
        """Make a webhook, or return the one that was made with the same key and request within ten minutes.

        Raises:
            RequestError: nothing is ever sent there, a type is unknown, or the program has as many as it may.
            DedupeConflictError: the key came with another request.
            NotFoundError: the webhook made with the key is deleted.
            StoreError: it cannot be kept.
        """
        self._check(asked.url)
        if not _KNOWN.issuperset(asked.types):
            raise RequestError("there is no such type of event", next_step="see the types in docs/api.md, Events")
        told = ("make", asked.url, asked.level, asked.types, asked.sessions)
        promised = await self._promised(caller, key, told, self._ids.webhook())
        if promised.done:
            return MadeWebhook(await self.find(caller, promised.webhook), promised.secret, known=True)
        new = ProgramWebhook(promised.webhook, caller.name, asked.url, asked.level, asked.types, asked.sessions)
        await self._note(caller, "make", new)
        # Before: a webhook without its secret could not be sent, a secret without its webhook harms nobody.
        await self.secrets.put(new.id, promised.secret)
        made = await self._store.webhooks.add(new, self._most)
        if made is None:
            await self.secrets.drop(new.id)
            raise RequestError("a program has no more webhooks than that", next_step="delete one that is not needed")
        await self._kept(caller, key, promised)
        return MadeWebhook(made, promised.secret)

    async def all(self, caller: ApiCaller) -> tuple[ProgramWebhook, ...]:
        """Return a program's webhooks, the oldest first. Raises StoreError."""
        return await self._store.webhooks.owned(caller.name)

    async def find(self, caller: ApiCaller, webhook: str) -> ProgramWebhook:
        """Return one of a program's webhooks.

        Raises:
            NotFoundError: it has no such one.
            StoreError: the store cannot be used.
        """
        for one in await self.all(caller):
            if one.id == webhook:
                return one
        raise NotFoundError

    async def drop(self, caller: ApiCaller, webhook: str) -> None:
        """Send nothing there any more, and forget it. Raises NotFoundError, StoreError."""
        found = await self.find(caller, webhook)
        await self._note(caller, "drop", found)
        await self._store.webhooks.drop(webhook)
        await self.secrets.drop(webhook)

    async def replace_secret(self, caller: ApiCaller, webhook: str, key: str = "") -> MadeWebhook:
        """Give a webhook another secret; the one before signs for a day more.

        The same key within ten minutes is answered with the same secret. Raises as `drop` does, and
        DedupeConflictError: the key came with another request.
        """
        found = await self.find(caller, webhook)
        promised = await self._promised(caller, key, ("replace_secret", webhook), webhook)
        if not promised.done:
            await self._note(caller, "replace_secret", found)
            await self.secrets.replace(webhook, promised.secret)
            await self._kept(caller, key, promised)
        return MadeWebhook(found, promised.secret)

    async def enable(self, caller: ApiCaller, webhook: str) -> ProgramWebhook:
        """Send to a disabled webhook again, events since then included. Raises as `drop` does."""
        found = await self.find(caller, webhook)
        if found.disabled:
            await self._note(caller, "enable", found)
            await self._store.webhooks.enable(webhook)
        return await self.find(caller, webhook)

    async def dead(self, caller: ApiCaller, reader: Label, webhook: str = "") -> tuple[DeadEvent, ...]:
        """Return the undelivered events of one of a program's webhooks, or of all, of sessions that it may know of.

        Raises:
            NotFoundError: it has no such webhook.
            StoreError: the store cannot be used.
        """
        asked = (await self.find(caller, webhook),) if webhook else await self.all(caller)
        found = [one for hook in asked for one in await self._store.webhooks.dead(hook.id)]
        seen = await self._seen(caller, reader, {one.sid for one in found})
        return tuple(one for one in found if one.sid in seen)

    async def redeliver(self, caller: ApiCaller, reader: Label, event: str) -> DeadEvent:
        """Have an undelivered event tried once more.

        Raises:
            NotFoundError: it is not listed.
            StoreError: the store cannot be used.
        """
        for one in await self.dead(caller, reader):
            if one.id == event and await self._store.webhooks.ask_again(one.webhook, event):
                return one
        raise NotFoundError

    async def _promised(self, caller: ApiCaller, key: str, told: tuple[object, ...], webhook: str) -> PromisedSecret:
        """Return the secret that a request is answered with: with a key that of the first such request."""
        digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        wanted = PromisedSecret(digest, webhook, self._ids.webhook_secret())
        return await self.secrets.promise(_key(caller, key), wanted) if key else wanted

    async def _kept(self, caller: ApiCaller, key: str, promised: PromisedSecret) -> None:
        if key:
            await self.secrets.kept_promise(_key(caller, key), promised)

    async def _seen(self, caller: ApiCaller, reader: Label, sids: Iterable[str]) -> set[str]:
        seen = set[str]()
        for sid in sids:
            try:
                await self._reading.see(caller.principal, reader, sid)
            except NotFoundError:
                continue
            seen.add(sid)
        return seen

    def _check(self, url: str) -> None:
        """Refuse an address that nothing would ever be sent to; names are looked up at each try, and not here."""
        try:
            place = parsed(url)
        except AddressError as error:
            raise RequestError(str(error)) from None
        if self._is_let_through(place):
            return
        if place.scheme != "https":
            raise RequestError("events are sent over https:// alone", next_step="use an address with https://")
        if is_ip(place.host) and not is_public(place.host):
            raise RequestError(
                "that is no public address, and events are sent to those alone",
                next_step="the operator can name it under `webhooks.unsafe_allow_private_addresses`",
            )

    def _is_let_through(self, place: WebAddress) -> bool:
        return is_ip(place.host) and (place.host, place.port) in self._private

    async def _note(self, caller: ApiCaller, what: str, webhook: ProgramWebhook) -> None:
        """Note an action in the audit, before it is carried out."""
        told = {"do": what, "webhook": webhook.id, "url": webhook.url}
        await self._store.audit.append((AuditRow("webhook", caller.principal, dict(told)),))


def _key(caller: ApiCaller, key: str) -> str:
    """Return the stored form of a program's key: short and of plain letters for any content."""
    return f"{caller.name}/{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
