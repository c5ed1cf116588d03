"""Buttons that were pressed: those that are spent are taken away from their message.

Slack tells the content of a pressed message, unless only one person was shown it. Such a message can only be taken away
as a whole, by the address that Slack gives for that; it did its work when its button was used.
"""

from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from slack_sdk.webhook.async_client import AsyncWebhookClient

from channels.port import Left
from channels.slack.clients import Workspace, logger
from channels.slack.errors import FAILURES
from channels.slack.events import Json
from channels.slack.web_api import remember

_HOOKS: Final = "https://hooks.slack.com"


class PressedMessages:
    """The pressed messages whose presses are to be answered.

    `server` is where the Web API is: a Slack of one's own gives addresses there.
    """

    def __init__(self, server: str, seconds: float) -> None:
        parts = urlsplit(server)
        self._origins = (_HOOKS, f"{parts.scheme}://{parts.netloc}")
        self._seconds = seconds
        self._pressed = dict[str, tuple[Json, Workspace]]()

    def keep(self, press: str, body: Json, there: Workspace) -> None:
        """Keep a pressed message until its press is answered; of many presses only the newest."""
        remember(self._pressed, press, (body, there))

    async def spend(self, press: str, left: Left) -> None:
        """Take away the buttons of a pressed message, besides those that are left; a failure is ignored."""
        body, there = self._pressed.pop(press, (None, None))
        if body is None or there is None:
            return
        with suppress(*FAILURES):
            if body["container"].get("is_ephemeral"):
                pressed = str(body["actions"][0].get("value", ""))
                if not left((pressed,)):
                    await self._take_away(str(body["response_url"]))
            elif message := body.get("message"):
                await self._update(body, message, there, left)

    async def _update(self, body: Json, message: Json, there: Workspace, left: Left) -> None:
        blocks: list[dict[str, Any]] = message.get("blocks") or []
        commands = tuple(
            str(key.get("value", "")) for block in blocks if _is_keys(block) for key in block.get("elements", ())
        )
        staying = set(left(commands))
        if staying.issuperset(commands):
            return
        kept = [_kept(block, staying) if _is_keys(block) else block for block in blocks]
        await there.client.chat_update(
            channel=body["channel"]["id"],
            ts=message["ts"],
            text=message.get("text", ""),
            blocks=[block for block in kept if not _is_keys(block) or block["elements"]],
        )

    async def _take_away(self, url: str) -> None:
        parts = urlsplit(url)
        if f"{parts.scheme}://{parts.netloc}" in self._origins:
            hook = AsyncWebhookClient(url, timeout=max(1, round(self._seconds)), retry_handlers=[], logger=logger())
            await hook.send_dict({"delete_original": True})


def _is_keys(block: Json) -> bool:
    return block.get("type") == "actions"


def _kept(block: dict[str, Any], staying: set[str]) -> dict[str, Any]:
    return {**block, "elements": [key for key in block["elements"] if str(key.get("value", "")) in staying]}
