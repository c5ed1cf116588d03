"""The port for webhooks: what programs want to be sent, who sends it, and how far that came.

Every method that changes something is one atomic, idempotent script (law `lost_reply_never_duplicates`). Foreign
exceptions never leave an implementation: a store that does not answer raises StoreGoneError, one that refuses
StoreRefusedError, records of a newer version SchemaError.
"""

from typing import Protocol

from bot.sessions.webhooks import DeadEvent, Ended, ProgramWebhook, WebhookPosition


class WebhookStore(Protocol):
    """The webhooks of all programs."""

    async def add(self, new: ProgramWebhook, most: int) -> ProgramWebhook | None:
        """Keep a webhook and return it with the time; None if its owner has `most` of them."""
        ...

    async def drop(self, webhook: str) -> None:
        """Forget a webhook, how far it came and what it did not take."""
        ...

    async def owned(self, owner: str) -> tuple[ProgramWebhook, ...]:
        """Return a program's webhooks, the oldest first."""
        ...

    async def hold(self, holder: str, life: int, most: int) -> tuple[ProgramWebhook, ...]:
        """Take the right to send for webhooks, for `life` milliseconds, and return those that this holder may send for.

        It keeps what it holds, and takes at most `most` besides that nobody holds.
        """
        ...

    async def give_back(self, holder: str) -> None:
        """Let others send for the webhooks of this holder."""
        ...

    async def mark(self, webhook: str, *, failing: bool, disabled: Ended | None = None) -> None:
        """Note that a webhook fails, since now if it did not before, or works; or that nothing is sent any more."""
        ...

    async def enable(self, webhook: str) -> None:
        """Send to a webhook again, if nothing was sent any more; what was tried before counts no more."""
        ...

    async def positions(self, webhook: str, sids: tuple[str, ...]) -> dict[str, WebhookPosition]:
        """Return how far a webhook came in sessions; one that it was not in yet is missing."""
        ...

    async def note(self, webhook: str, sid: str, at: WebhookPosition, *, wait: int = 0) -> None:
        """Note how far a webhook came in a session; a position before the one that is known changes nothing.

        The next event is tried `wait` milliseconds from now. A closed position stays, and what a webhook did not take
        of its session goes.
        """
        ...

    async def give_up(self, dead: DeadEvent, most: int) -> None:
        """Go on behind an event that was not taken, and keep it among the `most` newest of its webhook, for a week."""
        ...

    async def forget(self, webhook: str, sid: str) -> None:
        """Forget what a webhook knows of a session that was deleted."""
        ...

    async def dead(self, webhook: str) -> tuple[DeadEvent, ...]:
        """Return what a webhook did not take, the oldest first."""
        ...

    async def ask_again(self, webhook: str, event: str) -> bool:
        """Note that an event is to be tried once more; return False if there is none."""
        ...

    async def settle(self, dead: DeadEvent, error: str) -> None:
        """Note what became of one that was tried once more: forgotten where there is no error."""
        ...
