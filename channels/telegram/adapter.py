"""Telegram: listens, by polling or by a webhook, and speaks.

`updates` reads all updates, and `sender` sends all outbound texts. The token is in the addresses that are called, so
the libraries that log those are kept quiet, and no error carries a sentence of theirs.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from telegram.error import BadRequest, InvalidToken, RetryAfter, TelegramError

from channels.begun_sends import BegunSends
from channels.http import download, skewed
from channels.intake import Intake, Kept, Lanes
from channels.messages import Address, Attachment, Event, Inbound, Moved, Outbound, Signal
from channels.port import (
    Answer,
    Audience,
    Began,
    ChannelError,
    ChannelVault,
    LargeFileError,
    Lease,
    Left,
    ListenError,
    Receive,
    Trouble,
    VaultError,
    untold,
)
from channels.telegram import polling, updates
from channels.telegram.buttons import ButtonPresses
from channels.telegram.client import BotApi, BotApiRequests, UnreadableError, quiet
from channels.telegram.errors import MovedError, failure, seconds
from channels.telegram.menu import CommandMenu, show_menus
from channels.telegram.migration import GroupMigrations
from channels.telegram.parts import MessageParts
from channels.telegram.polling import Poller, TelegramTiming
from channels.telegram.probing import TelegramProbe
from channels.telegram.readers import SeenReaders, TelegramReaders
from channels.telegram.sender import TelegramSender
from channels.telegram.webhook import Webhook, WebhookListener, WebhookRegistration, refused

if TYPE_CHECKING:
    from telegram import User

SERVER: Final = "https://api.telegram.org"
UNKNOWN_BUTTON: Final = "This button does nothing any more."

_LOGGER: Final = logging.getLogger(__name__)
_NO_MENU: Final = CommandMenu()
_CONNECTIONS: Final = 64
_HANDED_OUT: Final = 20_000_000
"""Bytes of the largest file that Telegram hands out."""
_FETCHED_CALLS: Final = 4
"""How many calls' time a file may take."""


class Telegram:
    """The adapter for one bot.

    `token` is @BotFather's, `menu` has the commands to show; Telegram takes only some of them as names. `admins`
    returns the present accounts of admins, `observes` whether groups are to be observed, `chats` the chats that the
    policy names. `vault` keeps which groups moved and who was seen in them. `lease` lets one process of all poll; with
    a `webhook` no process polls, and all may listen. `bots` are the accounts of other bots that are read. `server` is
    where the Bot API is. `now_ms` is the time in milliseconds since 1970.
    """

    name = updates.NAME
    marks_repeats = True
    marks_untrusted = True
    previews = True

    def __init__(  # noqa: PLR0913 - the composition root's facts about one bot
        self,
        token: str,
        lease: Lease,
        vault: ChannelVault,
        *,
        menu: CommandMenu = _NO_MENU,
        admins: Callable[[], frozenset[str]] = frozenset,
        webhook: Webhook | None = None,
        observes: Callable[[], bool] = bool,
        chats: Callable[[], frozenset[str]] = frozenset,
        bots: Iterable[str] = (),
        server: str = SERVER,
        now_ms: Callable[[], int],
        timing: TelegramTiming | None = None,
    ) -> None:
        # Else the library warns at every wait that it will tell its length in another way some day.
        os.environ.setdefault("PTB_TIMEDELTA", "true")
        quiet()
        self._timing = timing or TelegramTiming()
        self._request, self._polling = (
            BotApiRequests(most, self._timing.call, self._heard) for most in (_CONNECTIONS, 1)
        )
        self._now_ms, self._skew = now_ms, tuple[Trouble, ...]()
        api, own = server.rstrip("/"), token.partition(":")[0]
        self._bot = BotApi(token, f"{api}/bot", f"{api}/file/bot", self._request, self._polling)
        self._menu, self._vault, self._admins = menu.fitting(), vault, admins
        self._me = updates.TelegramIdentity(own, "", frozenset(name for name, _ in self._menu.all), frozenset(bots))
        self._readers = TelegramReaders(self._bot, self.account, self._timing.readers, SeenReaders(vault, own))
        self._migrations, self._parts = GroupMigrations(self._bot, vault, own), MessageParts(vault, own)
        self._sender = TelegramSender(self._bot, self._timing.typing, BegunSends(vault, f"{updates.NAME}/{own}"))
        self._presses = ButtonPresses(self._bot, self._timing.press)
        self._webhook, self._lease = webhook, lease
        here = f"{updates.NAME}/{own}"
        self._registration = hooks = WebhookRegistration(self._bot, vault, lease, name=here, timing=self._timing)
        self._probe = TelegramProbe(self._bot, vault, lease, hooks=hooks, own=own)
        base, unhook = self._bot.base_url, hooks.take_off
        self._poll = Poller(base, self._polling, lease=lease, right=here, timing=self._timing, unhook=unhook)
        self._intake = Intake(
            vault,
            hooks.right,
            self._take,
            beside=lambda update: updates.commands(update, self._me),
            pause=self._timing.pause,
            longest=self._timing.longest,
            patience=None if webhook else self._timing.patience,
        )
        self._answering, self._unread, self._shown_to = Lanes(), 0, frozenset[str]()
        self._observes, self._chats = observes, chats
        self._receive: Receive | None = None

    @property
    def account(self) -> str:
        """The bot's own account."""
        return f"{updates.NAME}:{self._me.id}"

    async def serve(self, receive: Receive, began: Began = untold) -> None:
        """Listen until cancelled.

        `began` is called once, when a poll was answered, or when Telegram took the webhook.

        Raises:
            OSError: the webhook's address cannot be listened at.
            ListenError: Telegram refuses the webhook.
        """
        self._receive = receive
        try:
            if self._webhook is None:
                await self._answered(self._learn)
                await self._show_menus()
                async with self._intake.running():
                    await self._poll.run(self._came, self._intake.adopt, began)
            else:
                await self._by_webhook(self._webhook, began)
        finally:
            self._receive = None

    async def _by_webhook(self, webhook: Webhook, began: Began) -> None:
        """Listen by a webhook: bound, then registered; taken off if it cannot begin and no other process listens."""
        endpoint = WebhookListener(webhook, self._timing.call, lambda: bool(self._me.username))
        try:
            async with self._intake.running(self._lease), endpoint.open(self._came):
                await self._answered(self._learn)
                await self._answered(lambda: self._registration.register(webhook))
                began()
                await self._show_menus()
                await self._registration.watch(webhook)
        except (OSError, ListenError):
            await self._registration.give_up()
            raise

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return a file that came with a message, of at most `most` bytes; Telegram hands out 20 MB at most.

        Raises:
            LargeFileError: it is larger.
            ChannelError: it cannot be fetched.
        """
        try:
            address = (await self._bot.get_file(attachment.handle)).file_path or ""
        except BadRequest as error:
            if "too big" in error.message.lower():
                raise LargeFileError(_HANDED_OUT) from None
            raise ChannelError("Telegram does not have the file any more") from None
        except TelegramError:
            raise ChannelError("Telegram cannot be asked for the file") from None
        # A path on a server's disk stands alone if this machine has it too, and else behind the address for files.
        base = f"{self._bot.base_file_url}/"
        if not address.startswith(base) or address.startswith(f"{base}/"):
            raise ChannelError("the Bot API server keeps its files on its disk, where they cannot be fetched")
        return await download(address, most, _FETCHED_CALLS * self._timing.call)

    async def close(self) -> None:
        """Close the connections; nothing can be sent any more."""
        await self._polling.shutdown()
        await self._request.shutdown()

    async def send(self, outbound: Outbound) -> str:
        """Say it, and return which message that is.

        Raises:
            ChannelError: it was certainly not said.
            AmbiguousSendError: it may have been sent.
        """
        if outbound.press and await self._presses.tell(outbound):
            return ""
        try:
            return await self._sender.send(replace(outbound, address=self._migrations.now(outbound.address)))
        except MovedError as error:
            # Of it nothing was said.
            if not await self._has_moved(outbound.address.chat, error.chat):
                raise
        return await self._sender.send(replace(outbound, address=self._migrations.now(outbound.address)))

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written.

        Raises ChannelError: it was not shown.
        """
        await self._sender.preview(replace(outbound, address=self._migrations.now(outbound.address)))

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that the bot is typing; the end takes back a remaining preview."""
        await self._sender.signal(self._migrations.now(address), signal)

    async def spend(self, press: str, left: Left) -> None:
        """Take away the buttons of a pressed message, besides those that are left; a failure is ignored."""
        await self._presses.spend(press, left)

    async def audience(self, address: Address) -> Audience:
        """Return the present readers of the address, as far as Telegram tells."""
        try:
            return await self._readers.audience(self._migrations.now(address))
        except MovedError as error:
            with suppress(VaultError):
                await self._has_moved(address.chat, error.chat)
            return await self._readers.audience(self._migrations.now(address))

    async def troubles(self) -> tuple[Trouble, ...]:
        """Ask Telegram for faults, and add those that polling met."""
        found = list(self._poll.troubles())
        try:
            me = await self._bot.get_me()
            hook = await self._bot.get_webhook_info()
        except InvalidToken:
            found.append(polling.NOT_ACCEPTED)
        except TelegramError:
            found.append(Trouble("Telegram cannot be reached", "look at the network of this machine"))
        else:
            found += await self._registration.troubles(hook, self._webhook)
            found += self._skew
            found += self._privacy(me)
        found += await self._misnamed()
        found += await self._intake.troubles()
        if self._unread:
            found.append(Trouble(f"{self._unread} updates could not be understood", "look for a newer version"))
        return tuple(dict.fromkeys(found))

    async def probe(self) -> tuple[Trouble, ...]:
        """Ask Telegram for faults that only a trial shows."""
        polls = self._webhook is None
        return tuple([one async for one in self._probe.troubles(self._chats(), polls=polls)])

    async def mend(self) -> tuple[str, ...]:
        """Take off a stale webhook where this bot is to poll; return a clause for each thing that was done."""
        return await self._probe.mend() if self._webhook is None else ()

    async def _heard(self, headers: Mapping[str, str]) -> None:
        """Compare the clock with the one of an answer."""
        self._skew = skewed(headers, self._now_ms(), "timed work happens at a wrong time")

    async def _misnamed(self) -> list[Trouble]:
        """Tell of groups that the policy names by an id that they have at Telegram alone."""
        found = list[Trouble]()
        with suppress(VaultError):
            for chat in sorted(self._chats()):
                first = (await self._migrations.first(Address(updates.NAME, chat), settled=False)).chat
                if first != chat:
                    told = f"the policy names the group {chat}, which goes on as {first} here since it became another"
                    found.append(Trouble(told, f"write `{first}` in its place in config.yaml", names=True))
        return found

    def _privacy(self, me: "User") -> list[Trouble]:
        if me.can_read_all_group_messages:
            return []
        sees = "privacy mode is on: in groups the bot sees only messages addressed to it, unless it is an administrator"
        step = "type `/setprivacy` at @BotFather, and add it to its groups again"
        if self._observes():
            return [Trouble(f"{sees}, so it cannot observe them", step)]
        return [Trouble(sees, f"nothing to do if it is to be addressed there; otherwise {step}", remark=True)]

    async def _answered(self, call: Callable[[], Awaitable[None]]) -> None:
        """Ask Telegram something until it answers.

        Raises ListenError: it refuses a webhook, or the token of a bot that has one.
        """
        pause, unanswered = self._timing.pause, "the bot could not begin to listen, it tries again"
        while True:
            asked = 0.0
            try:
                return await call()
            except VaultError as error:
                _LOGGER.warning(unanswered, extra={"subject": polling.SUBJECT, "cause": str(error)})
            except TelegramError as error:
                if self._webhook is not None and (reason := refused(error)) is not None:
                    raise reason from None
                self._log_failed(unanswered, error)
                asked = self._timing.longest if isinstance(error, InvalidToken) else 0.0
                asked = seconds(error) if isinstance(error, RetryAfter) else asked
            await anyio.sleep(max(asked, pause))
            pause = min(2 * pause, self._timing.longest)

    async def _learn(self) -> None:
        """Learn the bot's name. Raises TelegramError."""
        if not self._me.username:
            me = await self._bot.get_me()
            if not me.username:
                # A bot has one, and without it none of its commands is known for its own.
                raise UnreadableError
            self._me = replace(self._me, id=str(me.id), username=me.username)

    async def _show_menus(self) -> None:
        """Show the menus to the present admins and to all others."""
        self._shown_to = self._admins()
        await show_menus(self._bot, self._menu, self._shown_to, vault=self._vault, own=self._me.id)

    async def _came(self, update: updates.Json) -> None:
        """Hand on one update; when this returns it is kept."""
        await self._intake.take(updates.lane(update), f"{update['update_id']:020d}", update)

    async def _take(self, update: updates.Json, kept: Kept) -> None:
        """Have the application take in one update, and say what it has to say of it."""
        try:
            told, met = await self._events(update), updates.met(update)
        except (AttributeError, KeyError, TypeError, ValueError):
            # It would come again for ever, and nothing after it.
            _LOGGER.warning(
                "an update could not be understood, it is left out", extra={"subject": polling.SUBJECT}, exc_info=True
            )
            self._unread += 1
            return
        if met is not None:
            await self._readers.note(met)
        query = update.get("callback_query")
        async with self._presses.pressed(query) if query is not None and told else nullcontext():
            answers = [(event, await self._hand_on(event)) for event in told]
            kept()
            for event, answer in answers:
                if answer is not None and isinstance(event, Inbound):
                    # One person's answers are sent in order, and keep no other person's waiting.
                    async with self._answering.of(f"{event.account}@{event.address}"):
                        await answer()
        if query is not None and not told:
            await self._presses.refuse(query["id"], UNKNOWN_BUTTON)
        if self._admins() != self._shown_to:
            # An account was made an admin, or is none any more, by this or before it.
            await self._show_menus()

    async def _events(self, update: updates.Json) -> tuple[Event, ...]:
        """Return the events of an update, with the place of a message among the parts of one.

        Raises AttributeError, KeyError, TypeError or ValueError: it cannot be understood. VaultError.
        """
        found = list[Event]()
        for event in updates.events(update, self._me):
            found += await self._parts.of(update, event, self._me) if isinstance(event, Inbound) else (event,)
        return tuple(found)

    def _log_failed(self, event: str, error: TelegramError) -> None:
        """Log a call that failed, in no words of the library's, which may hold the token."""
        facts = {
            "subject": polling.SUBJECT,
            "cause": str(failure(error)),
            "address": urlsplit(self._bot.base_url).netloc,
        }
        _LOGGER.warning(event, extra={**facts, "kind": type(error).__name__})

    async def _hand_on(self, event: Event) -> Answer | None:
        if isinstance(event, Moved):
            if not await self._migrations.confirmed(event.address.chat, event.to.chat):
                return None
            await self._readers.moved(event.address.chat, event.to.chat)
        else:
            address = await self._migrations.first(event.address, settled=isinstance(event, Inbound))
            event = replace(event, address=address)
        return None if self._receive is None else await self._receive(event)

    async def _has_moved(self, old: str, new: str) -> bool:
        """Take note of Telegram's answer that a group has another id; return whether it counts."""
        if not await self._migrations.learn(old, new):
            return False
        event = updates.moved(old, new)
        await self._readers.moved(old, new)
        if self._receive is not None:
            # Telegram tells it by an update too; the application may not be able to keep it just now.
            try:
                await self._receive(event)
            except Exception:
                _LOGGER.warning(polling.NOT_KEPT, extra={"subject": polling.SUBJECT}, exc_info=True)
        return True
