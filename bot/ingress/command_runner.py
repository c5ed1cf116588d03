"""Execution of commands: each is answered, also after an error.

Only if the store was gone does the platform redeliver a command.
"""

import logging
from typing import Final

from bot.access.authorize import Caller
from bot.access.session_ids import SessionIds
from bot.audit import rendering
from bot.commands.command import Reply
from bot.commands.table import CommandTable
from bot.core.errors import BusyError, LeaseLostError, StoreError, StoreGoneError
from bot.core.logs import bound
from bot.sessions.ports.people import AuditStore
from channels.messages import Address

UNREAD: Final = (
    "This command cannot read or write its records in the store; another version of lockgate may have written them. "
    "`lockgate doctor` and `lockgate audit verify` tell more."
)
"""The answer where an error of the store ended a command; it reveals nothing that the caller may not know."""

FAILED: Final = "This command failed, and doing it again may fail again; an admin can look for it with `/audit`."
"""The answer where an error of ours ended a command."""

_LOGGER: Final = logging.getLogger(__name__)


class CommandRunner:
    """Runs commands of authorized callers, each in the session that the caller speaks in.

    `known` are the commands of this installation.
    """

    def __init__(self, commands: CommandTable, session_ids: SessionIds, audit: AuditStore) -> None:
        self.known = commands.commands
        self._commands = commands
        self._session_ids = session_ids
        self._audit = audit

    async def answer(
        self, caller: Caller, there: Address, text: str, *, home: Address, owner: str
    ) -> tuple[str, Reply]:
        """Run a command and return the id of the session it was given in, and the answer.

        It is answered `there`, to the caller alone; the session is that of `owner` at `home`.

        Raises:
            StoreGoneError: The store does not answer.
            StoreError: A failure could not be audited.
        """
        sid = self._session_ids.newest(home)
        try:
            sid = await self._session_ids.of(home, owner)
            return sid, await self._commands.answer(self._commands.request(caller, there, sid), text)
        except StoreGoneError:
            raise
        except LeaseLostError:
            return sid, Reply(str(BusyError()), failed=True)
        except Exception as error:
            with bound(session=sid):
                _LOGGER.exception("a command broke")
            await self._audit.append((rendering.failed("router", sid, error),))
            return sid, Reply(UNREAD if isinstance(error, StoreError) else FAILED, failed=True)
