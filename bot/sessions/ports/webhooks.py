"""The port for webhooks: the webhooks of programs, the right to send for them, and their positions.

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
        """Forget a webhook, its positions and its dead events."""
        ...

    async def owned(self, owner: str) -> tuple[ProgramWebhook, ...]:
        """Return a program's webhooks, the oldest first."""
        ...

    async def hold(self, holder: str, life: int, most: int) -> tuple[ProgramWebhook, ...]:
        """Take the right to send for webhooks, for `life` milliseconds, and return those that this holder may send for.

        It keeps its rights, and takes at most `most` webhooks in addition that have no holder.
        """
        ...

    async def give_back(self, holder: str) -> None:
        """Give up all rights of this holder, so that others may send."""
        ...

    async def mark(self, webhook: str, *, failing: bool, disabled: Ended | None = None) -> None:
        """Note that a webhook fails, since now if it did not before, or works; or that it is disabled, and why."""
        ...

    async def enable(self, webhook: str) -> None:
        """Enable a disabled webhook; tries before this moment count no more."""
        ...

    async def positions(self, webhook: str, sids: tuple[str, ...]) -> dict[str, WebhookPosition]:
        """Return the positions of a webhook in sessions; a session without one is missing."""
        ...

    async def note(self, webhook: str, sid: str, at: WebhookPosition, *, wait: int = 0) -> None:
        """Note a webhook's position in a session; a position before the known one changes nothing.

        The next event is tried `wait` milliseconds from now. A closed position stays closed, and the webhook's dead
        events of that session are forgotten.
        """
        ...

    async def give_up(self, dead: DeadEvent, most: int) -> None:
        """Skip an event that was not delivered; keep it among the webhook's `most` newest dead events, for a week."""
        ...

    async def forget(self, webhook: str, sid: str) -> None:
        """Forget a webhook's records of a deleted session."""
        ...

    async def dead(self, webhook: str) -> tuple[DeadEvent, ...]:
        """Return a webhook's dead events, the oldest first."""
        ...

    async def ask_again(self, webhook: str, event: str) -> bool:
        """Mark a dead event to be tried once more; return False if there is none."""
        ...

    async def settle(self, dead: DeadEvent, error: str) -> None:
        """Note the outcome of a repeated try: the dead event is forgotten if `error` is empty."""
        ...
