"""Webhooks in the store: their records, the rights to send for them, their positions, and dead events.

All of them are in one slot, so that a position is written only while its webhook is there, and one request renews all
rights of a process.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from bot.sessions.log.events import Visibility
from bot.sessions.webhooks import DeadEvent, Ended, ProgramWebhook, WebhookPosition
from bot.store.calls import Arguments, ScriptAnswer, call, nested
from bot.store.records import codec
from bot.store.records.codec import Fields, dump, raw, text
from bot.store.records.form import unpack
from bot.store.records.kinds import DEAD_EVENT, WEBHOOK, WEBHOOK_POSITION
from bot.store.schema import WEBHOOK_RIGHTS, WEBHOOKS, dead_events_key, webhook_positions_key
from bot.store.scripts.loader import Script
from bot.store.shared import Shared


class RedisWebhooks:
    """Implements the port `WebhookStore`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def add(self, new: ProgramWebhook, most: int) -> ProgramWebhook | None:
        """Keep a webhook and return it with the time."""
        record = {
            "principal": new.owner,
            "url": new.url,
            "level": new.level.value,
            "types": dump(list(new.types)) if new.types else "",
            "sessions": dump(list(new.sessions)) if new.sessions else "",
        }
        got = await self._run(Script.ADD_WEBHOOK, new.id, {"webhook": nested(record), "most": most})
        return None if got.word == "full" else replace(new, created_at=got.number("created"))

    async def drop(self, webhook: str) -> None:
        """Forget a webhook, its positions and its dead events."""
        await self._run(Script.DROP_WEBHOOK, webhook, {})

    async def owned(self, owner: str) -> tuple[ProgramWebhook, ...]:
        """Return a program's webhooks, the oldest first."""
        (flat,) = await self._shared.connection.commands(("HGETALL", WEBHOOKS))
        found = [_webhook(name, record) for name, record in codec.pairs(flat).items()]
        return tuple(sorted((one for one in found if one.owner == owner), key=lambda one: (one.created_at, one.id)))

    async def hold(self, holder: str, life: int, most: int) -> tuple[ProgramWebhook, ...]:
        """Take the right to send for webhooks, and return those that this holder may send for."""
        got = await self._hold(holder, life, most)
        return tuple([_webhook(name, record) for name, record in codec.pairs(got.list("webhooks")).items()])

    async def give_back(self, holder: str) -> None:
        """Give up all rights of this holder, so that others may send."""
        await self._hold(holder, 0, 0)

    async def mark(self, webhook: str, *, failing: bool, disabled: Ended | None = None) -> None:
        """Note that a webhook fails or works, or that it is disabled."""
        await self._run(Script.MARK_WEBHOOK, webhook, {"failing": failing, "disabled": disabled})

    async def enable(self, webhook: str) -> None:
        """Enable a disabled webhook."""
        await self._run(Script.MARK_WEBHOOK, webhook, {"enabled": True})

    async def positions(self, webhook: str, sids: tuple[str, ...]) -> dict[str, WebhookPosition]:
        """Return the positions of a webhook in sessions."""
        if not sids:
            return {}
        asked = ("HMGET", webhook_positions_key(webhook), *map(raw, sids))
        (found,) = await self._shared.connection.commands(asked)
        return {sid: _position(record) for sid, record in zip(sids, found, strict=True) if record is not None}

    async def note(self, webhook: str, sid: str, at: WebhookPosition, *, wait: int = 0) -> None:
        """Note a webhook's position in a session."""
        args = {"session": sid, "seq": at.seq, "attempt": at.attempt, "closed": at.closed, "wait": wait}
        await self._run(Script.NOTE_WEBHOOK, webhook, args)

    async def give_up(self, dead: DeadEvent, most: int) -> None:
        """Skip an event that was not delivered, and keep it."""
        args = {"session": dead.sid, "seq": dead.seq, "event": dead.id, "attempt": dead.attempts, "error": dead.error}
        kept = {"most": most, "keep": self._shared.options.keep_dead_ms}
        await self._run(Script.GIVE_UP_EVENT, dead.webhook, {**args, **kept})

    async def forget(self, webhook: str, sid: str) -> None:
        """Forget a webhook's records of a deleted session."""
        await self._run(Script.NOTE_WEBHOOK, webhook, {"session": sid, "forget": True})

    async def forget_session(self, owner: str, sid: str) -> None:
        """Forget the records of a program's webhooks about an erased session."""
        for one in await self.owned(owner):
            await self.forget(one.id, sid)

    async def dead(self, webhook: str) -> tuple[DeadEvent, ...]:
        """Return a webhook's dead events, the oldest first."""
        (flat,) = await self._shared.connection.commands(("HGETALL", dead_events_key(webhook)))
        found = [_dead(webhook, name, record) for name, record in codec.pairs(flat).items()]
        return tuple(sorted(found, key=lambda one: (one.failed_at, one.id)))

    async def ask_again(self, webhook: str, event: str) -> bool:
        """Mark a dead event to be tried once more."""
        return (await self._settle(webhook, {"event": event, "again": True})).word == "ok"

    async def settle(self, dead: DeadEvent, error: str) -> None:
        """Note the outcome of a repeated try."""
        await self._settle(dead.webhook, {"event": dead.id, "attempt": dead.attempts + 1, "error": error or None})

    async def _settle(self, webhook: str, args: Arguments) -> ScriptAnswer:
        return await self._run(Script.SETTLE_EVENT, webhook, {**args, "keep": self._shared.options.keep_dead_ms})

    async def _hold(self, holder: str, life: int, most: int) -> ScriptAnswer:
        return await self._run(Script.HOLD_WEBHOOKS, "", {"owner": holder, "life": life, "most": most})

    async def _run(self, script: Script, webhook: str, args: Arguments) -> ScriptAnswer:
        keys = {
            "webhooks": WEBHOOKS,
            "rights": WEBHOOK_RIGHTS,
            "positions": webhook_positions_key(webhook),
            "dead": dead_events_key(webhook),
        }
        return await self._shared.run(call(script, keys, {"id": webhook, **args}))


def _webhook(name: bytes, record: bytes) -> ProgramWebhook:
    return codec.reading(lambda: _read(text(name), unpack(WEBHOOK, record)))


def _read(name: str, got: Fields) -> ProgramWebhook:
    return ProgramWebhook(
        id=name,
        owner=got["principal"],
        url=got["url"],
        level=Visibility(got["level"]),
        types=tuple(_listed(got["types"])),
        sessions=tuple(_listed(got["sessions"])),
        created_at=got["created"],
        failing=got["failing"],
        disabled=Ended(got["disabled"]) if got["disabled"] else None,
        enabled_at=got["enabled"],
        wanted_at=got["wanted_at"],
    )


def _position(record: bytes) -> WebhookPosition:
    got = codec.reading(lambda: unpack(WEBHOOK_POSITION, record))
    return WebhookPosition(got["seq"], got["attempt"], got["lapses"], got["closed"], got["time"])


def _dead(webhook: str, name: bytes, record: bytes) -> DeadEvent:
    got = codec.reading(lambda: unpack(DEAD_EVENT, record))
    return DeadEvent(
        id=text(name),
        webhook=webhook,
        sid=got["session"],
        seq=got["seq"],
        failed_at=got["time"],
        attempts=got["attempt"],
        error=got["error"],
        again=got["again"],
    )


def _listed(stored: str) -> Sequence[str]:
    return cast("list[str]", json.loads(stored)) if stored else []
