"""Claims: how a worker takes a session that is marked ready, and what it does with one that has no work."""

from dataclasses import dataclass

import anyio

from bot.agent.tails import Tails
from bot.core.errors import ElsewhereError
from bot.core.ids import Ids
from bot.delivery.outbox import Outbox
from bot.delivery.question_updates import QuestionUpdates
from bot.policy_state import PolicyReloader
from bot.quarantine import Quarantine
from bot.sessions.models import Claim, Doing
from bot.sessions.ports.sessions import SessionStore
from bot.worker.turn_runner import ATTEMPTS


@dataclass(frozen=True, slots=True)
class Taken:
    """A session that has work; `since` is when it was claimed, in seconds on the loop's clock."""

    claim: Claim
    since: float


class Claimer:
    """Claims sessions by the policy in force; `tails` tells what is known of a session already."""

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        store: SessionStore,
        ids: Ids,
        outbox: Outbox,
        question_updates: QuestionUpdates,
        policy: PolicyReloader,
        quarantine: Quarantine,
        tails: Tails,
    ) -> None:
        self._store = store
        self._ids = ids
        self._outbox = outbox
        self._question_updates = question_updates
        self._policy = policy
        self._quarantine = quarantine
        self._tails = tails

    async def take(self, sid: str) -> Taken | None:
        """Claim a session, None if it has no work or another policy is in force. What it has to say is said.

        Raises ElsewhereError: only a process that serves its channel can work it. StoreError. UnsettledError.
        """
        if not await self._policy.current():
            return None
        # What is not written down yet would be taken for what a new attempt puts there under the same key.
        await self._outbox.settle_owed(sid)
        try:
            since, claim = anyio.current_time(), await self._claimed(sid)
        except ElsewhereError:
            await self._outbox.collect(sid)
            raise
        # The claim read it along, so no turn begins by a policy that was replaced a moment ago.
        current = await self._policy.current()
        if current and claim is None:
            await self._question_updates.ask_again(sid)
        if current and (claim is None or claim.state.undelivered):
            await self._outbox.collect(sid)
        if claim is None:
            if self._quarantine.tries(sid):
                await self._mended(sid)
            return None
        if current:
            return Taken(claim, since)
        await self.release(claim)
        return None

    async def release(self, claim: Claim) -> None:
        """Give a session back, so that whatever worker goes on with it need not wait for the lease. Raises StoreError.

        If another worker has it already, this changes nothing.
        """
        await self._store.release(claim)

    async def _claimed(self, sid: str) -> Claim | None:
        owner = f"{self._store.process}.{self._ids.owner()}"
        most = ATTEMPTS + self._quarantine.tries(sid)
        known = self._tails.known(sid)
        return await self._store.claim(sid, owner, known=known, channels=self._outbox.channels, most=most)

    async def _mended(self, sid: str) -> None:
        """Let a session out of quarantine in which nothing is left to do."""
        state = await self._store.state(sid)
        if state is None or (state.turn is None and not state.waiting_items and not state.undelivered):
            await self._quarantine.done(sid, Doing.WORK)
