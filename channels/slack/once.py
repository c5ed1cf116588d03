"""What Slack tells more than once is taken in once.

A mention comes as a mention and as a message, and whatever was not acknowledged in time comes again, up to an hour
later and to any process. The application keeps a message once by its identity. What it does not keep but does, such as
a command, would be done again: so a command is claimed in the vault first, and whoever claimed it does it. Slack waits
three seconds, and some commands ask a model; so one that takes longer is acknowledged by its claim, and goes on. A
claim is given back where it could not be done, so that it can be told again.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from channels.base import Answer, Receive, Vault, VaultError
from channels.message import Event, Inbound
from channels.slack.post import remember

_LOGGER: Final = logging.getLogger(__name__)

_REMEMBERED: Final = 10_000
_LIFE: Final = 86_400.0
_CLAIM: Final = "slack/once/"


class Once:
    """Hands on what was not handed on before; what it did is remembered here, and of commands in the vault.

    `patience` is how long, in seconds, a command is waited for.
    """

    def __init__(self, vault: Vault, patience: float) -> None:
        self._vault = vault
        self._patience = patience
        self._known: dict[str, None] = {}
        self._tasks: asyncio.TaskGroup

    async def hand(self, event: Event, receive: Receive) -> Answer | None:
        """Hand on an event, if it is the first time; return what is left to say of it. What raises was not handed on.

        A command is answered by the way. Raises VaultError: nobody can tell whether it was. Whatever `receive` raises.
        """
        if event.dedupe in self._known:
            return None
        if not (isinstance(event, Inbound) and event.addressed and event.text.startswith("/")):
            answer = await receive(event)
            remember(self._known, event.dedupe, None, most=_REMEMBERED)
            return answer
        name = _CLAIM + hashlib.sha256(event.dedupe.encode()).hexdigest()[:32]
        if not await self._vault.swap(name, None, b"1", _LIFE):
            return None
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks.create_task(self._do(event, name, receive, outcome))
        await asyncio.wait({outcome}, timeout=self._patience)
        if not outcome.cancel():
            outcome.result()
        return None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Let things be handed on; what is still being done at the end is ended and given back."""
        failure: Exception | None = None
        async with asyncio.TaskGroup() as self._tasks:
            try:
                yield
            except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
                failure = error
        if failure is not None:
            raise failure

    async def _do(self, event: Event, name: str, receive: Receive, outcome: "asyncio.Future[None]") -> None:
        failure: Exception | None = None
        done, answer = False, None
        try:
            answer = await receive(event)
            done = True
        except Exception as error:  # noqa: BLE001 - whoever keeps events has errors of its own
            failure = error
        finally:
            if not done:
                # A claim that cannot be given back ends by itself.
                with suppress(VaultError):
                    await self._vault.delete(name)
        if failure is None:
            remember(self._known, event.dedupe, None, most=_REMEMBERED)
        if not outcome.done():
            outcome.set_result(None) if failure is None else outcome.set_exception(failure)
        if answer is not None:
            try:
                await answer()
            except Exception as error:
                _LOGGER.warning("what was taken in could not be answered", exc_info=error)
