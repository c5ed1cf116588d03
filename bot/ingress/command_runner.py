"""Commands as they come in: each is answered, whatever becomes of it.

Only what the store being gone kept from an answer is told again by its platform.
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
    "what this command needs cannot be read from the store or written to it; `lockgate doctor` and "
    "`lockgate audit verify` tell more, maybe another version of lockgate wrote it"
)
"""What is told of a command that the store is in the way of, which may tell of what may not be known here."""

FAILED: Final = "this command failed, and doing it again may fail again; an admin can look for it with `/audit`"
"""What is told of a command that a fault of ours ended."""

_LOGGER: Final = logging.getLogger(__name__)


class CommandRunner:
    """Runs commands of callers who may give them, each in the session that the caller speaks in."""

    def __init__(self, commands: CommandTable, session_ids: SessionIds, audit: AuditStore) -> None:
        self._commands = commands
        self._session_ids = session_ids
        self._audit = audit

    async def answer(
        self, caller: Caller, there: Address, text: str, *, home: Address, owner: str
    ) -> tuple[str, Reply]:
        """Run a command and return the id of the session it was given in, and the answer.

        It is answered `there`, to the caller alone; the session is that of `owner` at `home`. Raises StoreGoneError,
        and StoreError: a failure could not be audited.
        """
        sid = self._session_ids.first(home)
        try:
            sid = await self._session_ids.of(home, owner)
            return sid, await self._commands.answer(self._commands.request(caller, there, sid), text)
        except StoreGoneError:
            raise
        except LeaseLostError:
            return sid, Reply(str(BusyError()))
        except Exception as error:
            with bound(session=sid):
                _LOGGER.exception("a command broke")
            await self._audit.append((rendering.failed("router", sid, error),))
            return sid, Reply(UNREAD if isinstance(error, StoreError) else FAILED)
