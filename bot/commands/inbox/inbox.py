"""`/approvals`: one list of everything that waits for the caller, in any session and of any kind.

Each kind of item is found by its own commands, which compare it with the clearance of the answering address (law
`no_read_up`). The list adds nothing to that: it is grouped, newest last, and bounded. In a shared chat the caller alone
reads it, like any answer to a command.
"""

from dataclasses import dataclass
from typing import Final

from bot.commands.command import CommandRequest, Reply, Run, UsageError
from bot.commands.inbox.waiting import WaitingEntry, Waits
from policy.labels import join_all

NOTHING: Final = "Nothing waits for an answer."
OLDER: Final = "{many} older ones: `/approvals older {skip}`."

_SHOWN: Final = 10
"""How many items of a kind are shown at a time."""

_OLDER: Final = "older"
_LONGEST_NUMBER: Final = 6


@dataclass(frozen=True, slots=True)
class InboxCommands:
    """List what waits for the caller.

    `groups` are the kinds of items, each with the heading of its group. `one` shows a single question whole.
    """

    groups: tuple[tuple[str, Waits], ...]
    one: Run

    async def inbox(self, request: CommandRequest, argument: str) -> Reply:
        """List the items that wait, those before the newest ones, or one question."""
        words = argument.split()
        if words[:1] != [_OLDER]:
            return await (self.one(request, argument) if words else self._listed(request, 0))
        if len(words) != 2 or not (words[1].isascii() and words[1].isdecimal()):  # noqa: PLR2004 - the word and the number
            raise UsageError("")
        return await self._listed(request, int(words[1][:_LONGEST_NUMBER]))

    async def _listed(self, request: CommandRequest, skip: int) -> Reply:
        """Return the items of each kind but the newest `skip` ones."""
        lines, told = list[str](), list[WaitingEntry]()
        for heading, waits in self.groups:
            found = sorted(await waits(request), key=lambda one: one.at)
            found = found[: len(found) - skip] if skip else found
            shown = found[-_SHOWN:]
            if not shown:
                continue
            lines.append(heading)
            if len(found) > len(shown):
                lines.append(OLDER.format(many=len(found) - len(shown), skip=skip + len(shown)))
            lines += [one.text for one in shown]
            told += shown
        return Reply("\n".join(lines) or NOTHING, join_all(one.label for one in told))
