"""Dead letters, for admins: texts that could not be sent, and texts that may have been sent.

A text is never shown: it may be another person's. A letter above the reader, or of a session above the reader, is
neither listed nor counted nor found (law `no_read_up`). One that is tried again passes the gate again when it is sent.
"""

from dataclasses import dataclass
from typing import Final

from bot.commands.command import CommandRequest, Reply, UsageError
from bot.core.errors import NotFoundError
from bot.core.ids import letter_id
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import SESSION
from bot.sessions.deliveries import Delivery
from bot.sessions.ports.delivery import OutboxStore
from channels.messages import Address
from policy.labels import Label, join_all

_MINUTE: Final = 60_000


@dataclass(frozen=True, slots=True)
class DeadLetterCommands:
    """Show and settle texts that could not be sent."""

    outbox: OutboxStore

    async def deadletter(self, request: CommandRequest, argument: str) -> Reply:
        """List dead letters, have one tried again, or let one go."""
        match argument.split():
            case [] | ["list"]:
                return await self._list(request)
            case ["retry", name]:
                return await self._decide(request, name, again=True)
            case ["discard", name]:
                return await self._decide(request, name, again=False)
            case _:
                raise UsageError("")

    async def _list(self, request: CommandRequest) -> Reply:
        letters = await self._letters(request)
        if not letters:
            return Reply("Nothing was left unsaid.")
        lines = [
            f"{name} {letter.kind} {letter.state.value} for {letter.address}, label {letter.label},"
            f" {max(0, request.now - letter.created_at) // _MINUTE} min old"
            for name, (letter, _) in letters.items()
        ]
        return Reply("\n".join(lines), join_all(label for _, label in letters.values()))

    async def _decide(self, request: CommandRequest, name: str, *, again: bool) -> Reply:
        found = (await self._letters(request)).get(name.lower())
        if found is None:
            raise NotFoundError
        letter, label = found
        row = AuditRow(
            "deadletter",
            request.caller.principal,
            {
                "what": "retry" if again else "discard",
                "key": letter.key,
                "destination": letter.address,
                "state": letter.state.value,
                "address": str(request.address),
            },
        )
        await self.outbox.decide_dead(letter, again=again, audit=(row,))
        return Reply(f"Message {name.lower()} is {'tried again' if again else 'discarded'}.", label)

    async def _letters(self, request: CommandRequest) -> dict[str, tuple[Delivery, Label]]:
        """Return the dead letters that the reader may know of by their ids, with the label of telling of one.

        Only receipts tell of texts that one session did not take from another, as far as they may.
        """
        readable = (await request.standing(None)).reader
        known = {
            letter_id(state.sid, letter.key): (letter, letter.label.join(state.visibility))
            for state, letter in await self.outbox.dead()
            if Address.parse(letter.address).channel != SESSION
        }
        return {name: found for name, found in known.items() if found[1].flows_to(readable)}
