"""The relay: sends waiting deliveries, in a process that runs no turns.

It takes no marks of readiness, which are for workers. The sweep finds waiting deliveries, so those that no worker sends
are sent with the next sweep.
"""

from contextlib import suppress

import anyio

from bot.core.errors import StoreError, StoreGoneError
from bot.delivery.outbox import Outbox
from bot.delivery.sweep import Sweep, Swept
from bot.policy_state import PolicyReloader
from bot.quarantine import Quarantine
from bot.sessions.models import Doing

_PARALLEL = 16


class Relay:
    """Delivers for the channels of its outbox."""

    def __init__(self, outbox: Outbox, sweep: Sweep, policy: PolicyReloader, quarantine: Quarantine) -> None:
        self._outbox = outbox
        self._sweep = sweep
        self._policy = policy
        self._quarantine = quarantine
        self._slots = anyio.Semaphore(_PARALLEL)
        self._busy = set[str]()

    async def serve(self) -> None:
        """Run until cancelled. Sends under way are finished."""
        async with anyio.create_task_group() as tasks:
            while True:
                swept = Swept()
                with suppress(StoreError):
                    if await self._policy.current():
                        swept = await self._sweep.find()
                        for sid in dict.fromkeys((*swept.own, *swept.found)):
                            if sid not in self._busy and not self._quarantine.rests(sid):
                                self._busy.add(sid)
                                tasks.start_soon(self._collect, sid)
                    else:
                        await self._policy.current_now()
                await anyio.sleep(swept.wait)

    async def _collect(self, sid: str) -> None:
        try:
            async with self._slots:
                await self._outbox.collect(sid)
        except StoreGoneError:
            # The sweep finds it when the store is back.
            pass
        except Exception as error:  # noqa: BLE001 - one session that cannot be worked must not end the others
            with suppress(StoreError):
                await self._quarantine.put(sid, Doing.WORK, error)
        finally:
            self._busy.discard(sid)
