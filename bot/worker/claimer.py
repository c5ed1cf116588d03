"""Claims: how a worker takes a session that is marked ready, and how it treats one without work."""

from dataclasses import dataclass

from bot.agent.tails import Tails
from bot.core.clock import Clock
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
    """A claimed session with work; `since` is when it was claimed, in seconds on the clock that nobody sets."""

    claim: Claim
    since: float


class Claimer:
    """Claims sessions by the policy in force; `tails` tells which events of a session are known here already."""

    def __init__(  # noqa: PLR0913 - made in the composition root from its collaborators
        self,
        *,
        store: SessionStore,
        ids: Ids,
        clock: Clock,
        outbox: Outbox,
        question_updates: QuestionUpdates,
        policy: PolicyReloader,
        quarantine: Quarantine,
        tails: Tails,
    ) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._outbox = outbox
        self._question_updates = question_updates
        self._policy = policy
        self._quarantine = quarantine
        self._tails = tails

    async def take(self, sid: str) -> Taken | None:
        """Claim a session, None if it has no work or another policy is in force. Its outbox is sent.

        Raises:
            ElsewhereError: Only a process that serves its channel can work it.
            UnsettledError: Another part of the waiting message may arrive in a moment.
            StoreError: The store does not answer.
        """
        if not await self._policy.current():
            return None
        # Outcomes not yet written could be mistaken for those of a new attempt under the same key.
        await self._outbox.settle_owed(sid)
        try:
            since, claim = self._clock.monotonic(), await self._claimed(sid)
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
        """Give a session back, so that the next worker need not wait for the lease. Raises StoreError.

        If another worker has it already, this changes nothing.
        """
        await self._store.release(claim)

    async def _claimed(self, sid: str) -> Claim | None:
        owner = f"{self._store.process}.{self._ids.owner()}"
        most = ATTEMPTS + self._quarantine.tries(sid)
        known = self._tails.known(sid)
        return await self._store.claim(sid, owner, known=known, channels=self._outbox.channels, most=most)

    async def _mended(self, sid: str) -> None:
        """Let a session out of quarantine if nothing is left to do in it."""
        state = await self._store.state(sid)
        if state is None or (state.turn is None and not state.waiting_items and not state.undelivered):
            await self._quarantine.done(sid, Doing.WORK)
