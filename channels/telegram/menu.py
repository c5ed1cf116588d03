"""The menus of commands that Telegram shows while people type.

A menu is not a right: each command in it can be refused. All people see one, groups another, and admins every command,
in their private chats alone. The vault names the accounts that got a menu, so that it is taken back from those who are
no longer admins, also after a restart.
"""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from telegram import BotCommand, BotCommandScopeAllGroupChats, BotCommandScopeChat
from telegram.error import TelegramError

from channels.port import ChannelVault, VaultError
from channels.telegram import updates

if TYPE_CHECKING:
    from telegram import Bot

_COMMAND: Final = re.compile(r"[a-z0-9_]{1,32}")
_MOST: Final = 100
_HELP: Final = 256

Commands = tuple[tuple[str, str], ...]
"""Names without their slash, and helps."""


@dataclass(frozen=True, slots=True)
class CommandMenu:
    """The commands shown to all people, in groups, and to admins in private."""

    everybody: Commands = ()
    groups: Commands = ()
    all: Commands = ()

    def fitting(self) -> "CommandMenu":
        """Return it with the names alone that Telegram takes."""
        everybody, groups, every = (
            tuple((name, told) for name, told in commands if _COMMAND.fullmatch(name))
            for commands in (self.everybody, self.groups, self.all)
        )
        return CommandMenu(everybody, groups, every)


async def show_menus(bot: "Bot", menu: CommandMenu, admins: Iterable[str], *, vault: ChannelVault, own: str) -> None:
    """Have Telegram show the menus; `admins` are the accounts of admins.

    A menu that cannot be shown is left out: every command can still be typed.
    """
    name = f"{updates.NAME}/{own}/menus"
    chats = {account.partition(":")[2] for account in admins if account.startswith(f"{updates.NAME}:")}
    chats = {chat for chat in chats if chat.isdecimal()}
    # A failure for one account does not stop the others: a user who never wrote to the bot has no chat with it.
    with suppress(TelegramError):
        await bot.set_my_commands(_entries(menu.everybody))
        await bot.set_my_commands(_entries(menu.groups), BotCommandScopeAllGroupChats())
    with suppress(VaultError):
        given = set[str](json.loads(await vault.get(name) or b"[]"))
        # Before they are given, so that none is forgotten.
        await vault.put(name, _written(given | chats))
        for chat in sorted(given | chats):
            scope = BotCommandScopeChat(int(chat))
            with suppress(TelegramError):
                if chat in chats:
                    await bot.set_my_commands(_entries(menu.all), scope)
                else:
                    await bot.delete_my_commands(scope)
                    given.discard(chat)
        await vault.put(name, _written(given | chats))


def _written(chats: set[str]) -> bytes:
    return json.dumps(sorted(chats)).encode()


def _entries(commands: Iterable[tuple[str, str]]) -> list[BotCommand]:
    return [BotCommand(name, (told.strip() or name)[:_HELP]) for name, told in commands][:_MOST]
