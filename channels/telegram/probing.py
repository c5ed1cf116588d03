"""The questions of `lockgate doctor --probe` to Telegram beside its usual ones, and the mending of `--fix` there.

A probe may disturb: one poll ends that of another program, which begins anew. So it polls only while no process of this
installation does, and confirms nothing. A webhook of another program is taken off only if Telegram says that it fails.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
from telegram.error import BadRequest, Conflict, Forbidden, TelegramError

from channels.port import ChannelVault, Lease, Trouble, VaultError
from channels.telegram import polling, updates
from channels.telegram.errors import by_webhook

if TYPE_CHECKING:
    from telegram import User

    from channels.telegram.client import BotApi
    from channels.telegram.webhook import WebhookRegistration

_POLL: Final = 5
"""Seconds that a probing poll is kept open: another program comes back within them."""

_RIGHT: Final = 1.0
"""Seconds to wait for the right to poll, which is free unless a process of this installation polls."""

TWO_POLLERS: Final = Trouble(
    "another program polls for this bot too",
    "stop it, or type `/revoke` at @BotFather and put the new token into the environment",
)
TOOK_OFF: Final = "deleted the webhook that this bot had set, so that it can poll"
TOOK_OFF_ANOTHER: Final = (
    "deleted a webhook of another program that Telegram could not reach, so that this bot can poll"
)


class TelegramProbe:
    """Asks Telegram about one bot, `own` is the number in its token."""

    def __init__(
        self, bot: "BotApi", vault: ChannelVault, lease: Lease, *, hooks: "WebhookRegistration", own: str
    ) -> None:
        self._bot = bot
        self._vault = vault
        self._lease = lease
        self._registration = hooks
        self._own = own

    async def troubles(self, chats: Iterable[str], *, polls: bool) -> AsyncGenerator[Trouble]:
        """Yield the findings of a probe: which bot this is, groups without it, and with `polls` another poller."""
        try:
            me = await self._bot.get_me()
        except TelegramError:
            # That is told by the usual questions.
            return
        async for found in self._identity(me):
            yield found
        for chat in sorted(chats):
            if await self._absent(chat):
                told = f"the bot is not in the group {chat} that the policy names"
                yield Trouble(told, "add it there, or mend the entry in `policy.chats`", names=True)
        if polls and await self._polled():
            yield TWO_POLLERS

    async def _identity(self, me: "User") -> AsyncGenerator[Trouble]:
        """Tell which bot the token is for, and which this installation was before."""
        yield Trouble(f"it is @{me.username}", f"write to it at https://t.me/{me.username}", remark=True)
        with suppress(VaultError):
            names = await self._vault.names(f"{updates.NAME}/")
            known = {name.split("/")[1] for name in names}
            if known and self._own not in known:
                told = (
                    f"until now the bot here was number {', '.join(sorted(known))}, this token is number {self._own}'s"
                )
                yield Trouble(told, "put the old bot's token back, or go on if the change is meant", remark=True)

    async def _absent(self, chat: str) -> bool:
        try:
            await self._bot.get_chat(int(chat))
        except ValueError:
            return False
        except (BadRequest, Forbidden):
            return True
        except TelegramError:
            return False
        return False

    async def _polled(self) -> bool:
        """Poll once, if no process here does, and say whether another program broke that off."""
        with suppress(VaultError, TelegramError), anyio.move_on_after(_RIGHT + 2 * _POLL):
            with anyio.move_on_after(_RIGHT) as waiting:
                async with self._lease.hold(f"{updates.NAME}/{self._own}"):
                    waiting.deadline = float("inf")
                    try:
                        await self._bot.get_updates(limit=1, timeout=_POLL, read_timeout=2 * _POLL)
                    except Conflict as error:
                        return not by_webhook(error)
        return False

    async def mend(self) -> tuple[str, ...]:
        """Take off a webhook that is in the way of polling: one that this bot set, or one that fails."""
        with suppress(TelegramError, VaultError):
            hook = await self._bot.get_webhook_info()
            if not hook.url:
                return ()
            trouble = await self._registration.take_off()
            if trouble is None:
                return (TOOK_OFF,)
            if trouble is polling.WEBHOOK and hook.last_error_date is not None and hook.pending_update_count:
                await self._bot.delete_webhook()
                return (TOOK_OFF_ANOTHER,)
        return ()
