"""The webhook: being told of updates by Telegram at an address of this machine, and how Telegram has it registered.

Telegram is answered 200 when an update is kept, and not before: any other answer makes it tell it again. Callers who
know the address but not the secret learn nothing, and the body of an oversized request is not read. Until the bot knows
its own name an update cannot be understood, so Telegram has to send it again.

A webhook that this bot sets is noted before, in the vault of all its processes, so that the webhook of a killed process
is known too. Only a noted webhook is taken off, and only while no process of this bot listens by one. Each of these
holds a right or waits for it, so the process that gets that right is alone. Another program's webhook is left, and
reported.
"""

import asyncio
import hmac
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from aiohttp import web
from telegram.error import BadRequest, Forbidden, InvalidToken, TelegramError

from channels.http import listening
from channels.port import ChannelVault, Lease, ListenError, Trouble, VaultError
from channels.telegram import polling, updates

if TYPE_CHECKING:
    from telegram import WebhookInfo

    from channels.telegram.client import BotApi
    from channels.telegram.polling import Take, TelegramTiming


LONGEST: Final = 1_000_000
"""The longest update that is read, in bytes; real ones have a few thousand."""

_LOGGER: Final = logging.getLogger(__name__)
_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{16,256}")


@dataclass(frozen=True, slots=True)
class Webhook:
    """The address at which Telegram reaches us.

    Raises:
        ValueError: the secret is not valid.
    """

    url: str
    """The address on the internet."""
    secret: str = field(repr=False)
    """Telegram's proof of itself: 16 to 256 letters, digits, `_` or `-`."""
    host: str
    """The host to listen at on this machine."""
    port: int
    """The port to listen at on this machine."""

    def __post_init__(self) -> None:
        if not _SECRET.fullmatch(self.secret):
            raise ValueError("the webhook's secret has 16 to 256 letters, digits, `_` or `-`")


class WebhookListener:
    """Listens for a webhook. `longest` is how long, in seconds, reading an update may take.

    `ready` returns whether updates can be taken in.
    """

    def __init__(self, webhook: Webhook, longest: float, ready: Callable[[], bool]) -> None:
        self._webhook = webhook
        self._longest = longest
        self._ready = ready

    @asynccontextmanager
    async def open(self, take: "Take") -> AsyncGenerator[None]:
        """Hand on every update while the block runs; Telegram repeats one for which `take` fails.

        Raises OSError: the address cannot be listened at.
        """

        async def post(request: web.Request) -> web.Response:
            return web.Response(status=await self._status(request, take))

        app = web.Application(client_max_size=LONGEST)
        app.router.add_post(urlsplit(self._webhook.url).path or "/", post)
        async with listening(app, self._webhook.host, self._webhook.port, self._longest):
            yield

    async def _status(self, request: web.Request, take: "Take") -> HTTPStatus:
        given = request.headers.get(_HEADER, "").encode("utf-8", "surrogateescape")
        genuine = hmac.compare_digest(given, self._webhook.secret.encode())
        if not genuine or not self._ready():
            return HTTPStatus.SERVICE_UNAVAILABLE if genuine else HTTPStatus.FORBIDDEN
        try:
            async with asyncio.timeout(self._longest):
                update: updates.Json | None = json.loads(await request.read())
        except web.HTTPRequestEntityTooLarge:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        except (ValueError, TimeoutError, RecursionError):
            return HTTPStatus.BAD_REQUEST
        if not isinstance(update, dict) or not isinstance(update.get("update_id"), int):
            return HTTPStatus.BAD_REQUEST
        try:
            await take(update)
        except Exception:
            # The application has errors of its own; Telegram tells the update again.
            facts = {"subject": "channel telegram", "address": f"{self._webhook.host}:{self._webhook.port}"}
            _LOGGER.warning("an update could not be kept, it is told again", extra=facts, exc_info=True)
            return HTTPStatus.SERVICE_UNAVAILABLE
        return HTTPStatus.OK


_NOTED: Final = 8
"""How many addresses are noted, the newest."""

_URL: Final = "look at `channels.telegram.webhook.url` in config.yaml"
_REFUSED: Final = (
    ("https", "its address is none that begins with `https://`"),
    ("resolve host", "there is no address for its host"),
    ("ports", "it must be at port 443, 80, 88 or 8443"),
    ("ip address", "its address is not one on the internet"),
)
"""Words in Telegram's sentence about a webhook, and the reason of the refusal."""

OWN: Final = Trouble(
    "a webhook that this bot set is still there", "nothing to do, `lockgate run` takes it off to poll", remark=True
)
_IN_USE: Final = Trouble(
    "another process of this bot listens by a webhook, so this one cannot poll",
    "end that process, or give all the same configuration",
)
_UNKNOWN: Final = Trouble(
    "a webhook is set for this bot, and the store does not tell whether the bot set it", "see whether the store answers"
)
_ANOTHER: Final = Trouble("Telegram has another webhook for this bot", "start this one again, and only this one")


def refused(error: TelegramError) -> ListenError | None:
    """Return why a webhook cannot begin, None for a fault that passes by waiting. No words of Telegram's are in it."""
    if isinstance(error, InvalidToken):
        return ListenError(polling.NOT_ACCEPTED.problem, polling.NOT_ACCEPTED.next_step)
    if not isinstance(error, BadRequest | Forbidden):
        return None
    told = error.message.lower()
    why = next((why for word, why in _REFUSED if word in told), "it refused it")
    return ListenError(f"Telegram does not take the webhook: {why}", _URL)


class WebhookRegistration:
    """Sets and takes off the webhook of `bot`.

    `name` is the bot's, and the prefix of the names of its stored values. `right` is the right that every process that
    listens by a webhook holds or waits for: the right to take in parked updates.
    """

    def __init__(
        self, bot: "BotApi", vault: ChannelVault, lease: Lease, *, name: str, timing: "TelegramTiming"
    ) -> None:
        self._bot = bot
        self._vault = vault
        self._lease = lease
        self.right = f"{name}/parked/"
        self._name = f"{name}/webhook"
        self._timing = timing

    async def register(self, webhook: "Webhook") -> None:
        """Have Telegram tell updates to a webhook. Raises TelegramError. VaultError: it cannot be noted, nor set."""
        noted = [url for url in await self._noted() if url != webhook.url]
        await self._vault.put(self._name, json.dumps([*noted, webhook.url][-_NOTED:]).encode())
        await self._bot.set_webhook(webhook.url, allowed_updates=updates.UPDATES, secret_token=webhook.secret)

    async def watch(self, webhook: "Webhook") -> None:
        """Check for ever that a webhook stays set, and log its faults; one that was taken off is set again."""
        told, failed = None, None
        while True:
            await anyio.sleep(self._timing.longest)
            with suppress(TelegramError, VaultError):
                hook = await self._bot.get_webhook_info()
                if not hook.url:
                    await self.register(webhook)
                    _LOGGER.warning("the webhook was taken off, it is set again", extra={"subject": polling.SUBJECT})
                problem = _wrong(hook, webhook) if hook.url else None
                if problem is not None and (problem.problem != told or hook.last_error_date != failed):
                    self._log(problem, hook)
                told, failed = problem and problem.problem, hook.last_error_date

    async def troubles(self, hook: "WebhookInfo", webhook: "Webhook | None") -> tuple[Trouble, ...]:
        """Return the faults of a webhook as Telegram has it; `webhook` is the one that should be there."""
        if webhook is not None:
            problem = _wrong(hook, webhook)
            return () if problem is None else (problem,)
        with suppress(VaultError):
            if hook.url and hook.url in await self._noted():
                return (OWN,)
        return (polling.WEBHOOK,) if hook.url else ()

    async def take_off(self) -> Trouble | None:
        """Take off a webhook that this bot set, if none of its processes listens at it; return the remaining fault."""
        try:
            if (trouble := await self._in_the_way()) is not OWN:
                return trouble
            with anyio.move_on_after(self._timing.free):
                async with self._lease.hold(self.right):
                    # Another program may have set one meanwhile.
                    if (trouble := await self._in_the_way()) is OWN:
                        await self._bot.delete_webhook()
                        _LOGGER.info("a webhook that this bot had set is taken off", extra={"subject": polling.SUBJECT})
                        trouble = None
                    return trouble
        except VaultError:
            return _UNKNOWN
        except TelegramError:
            return polling.WEBHOOK
        return _IN_USE

    async def give_up(self) -> None:
        """Take off the webhook that this bot set, as no process will listen at it.

        Telegram is not asked where none was set.
        """
        with suppress(VaultError), anyio.move_on_after(self._timing.free + self._timing.call):
            if await self._noted():
                await self.take_off()

    async def _in_the_way(self) -> Trouble | None:
        """Return the webhook that is set now: OWN, another's, or nothing. Raises TelegramError. VaultError."""
        hook = await self._bot.get_webhook_info()
        if not hook.url:
            return None
        return OWN if hook.url in await self._noted() else polling.WEBHOOK

    async def _noted(self) -> list[str]:
        noted: list[str] = json.loads(await self._vault.get(self._name) or b"[]")
        return noted

    def _log(self, problem: Trouble, hook: "WebhookInfo") -> None:
        """Log the fault; of an address only the host, as the rest may be a secret."""
        alert = {"alert": True} if problem is _ANOTHER else {}
        facts = {"subject": polling.SUBJECT, "cause": problem.problem, "step": problem.next_step}
        _LOGGER.warning("the webhook does not work", extra={**facts, **alert, "address": urlsplit(hook.url).netloc})


def _wrong(hook: "WebhookInfo", webhook: "Webhook") -> Trouble | None:
    if hook.url != webhook.url:
        return _ANOTHER
    if not hook.pending_update_count or not hook.last_error_message:
        return None
    waiting = f"{hook.pending_update_count} updates wait, as the webhook could not be reached or refused them"
    return Trouble(waiting, "look at the address, its certificate, and the store")
