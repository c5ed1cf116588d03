"""Commands about a session as a whole: let it rest, make it read-only, delete it.

A person may blindly end a session of theirs that is above their address's clearance. Then the answer is the same for an
existing session and for an absent one (law `no_read_up`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from bot.access.authorize import at_least
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.core.errors import RequestError
from bot.operations.lifecycle import SessionLifecycle, told_of
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.visibility import LONGEST_ID
from channels.messages import Button
from policy.request import Role

BLIND: Final = "If that conversation is yours, this is done now; it may not be told of here."
"""The answer for a session above this address's clearance, and for an absent one."""

NOTHING_HERE: Final = "This conversation has not begun."
ADMINS: Final = "In a shared chat this needs the role admin."

_CONFIRM: Final = "confirm"


@dataclass(frozen=True, slots=True)
class LifecycleCommands:
    """Pause, archive and delete the caller's sessions."""

    sessions: SessionStore
    lifecycle: SessionLifecycle

    async def pause(self, request: CommandRequest, argument: str) -> Reply:
        """Pause a session: messages to it wait."""
        return await self._do(request, argument, self.lifecycle.pause, "The conversation rests until `/resume`.")

    async def resume(self, request: CommandRequest, argument: str) -> Reply:
        """Resume a paused session."""
        return await self._do(request, argument, self.lifecycle.resume, "The conversation goes on.")

    async def archive(self, request: CommandRequest, argument: str) -> Reply:
        """Make a session read-only; its chat goes on in another."""
        told = "The conversation is archived. The next message in its chat begins another."
        return await self._do(request, argument, self.lifecycle.archive, told)

    async def restore(self, request: CommandRequest, argument: str) -> Reply:
        """Let an archived session be spoken in again."""
        if not argument:
            raise UsageError("")
        told = "The conversation is restored and goes on with its next message."
        return await self._do(request, argument, self.lifecycle.restore, told)

    async def delete(self, request: CommandRequest, argument: str) -> Reply:
        """Tell the effect of deleting a session, or delete it when confirmed."""
        words = argument.split()
        confirmed = words[-1:] == [_CONFIRM]
        named = " ".join(words[:-1] if confirmed else words)
        # Another conversation may go on here since the question was put, so the session to erase has to be named.
        confirmed = confirmed and bool(named)
        state, shown = await self._found(request, named)
        if not confirmed:
            name = named or request.sid
            text = (
                "This erases the conversation, its files and its background sessions for good. "
                f"Copies that were sent stay.\nType `/delete {name} confirm` to do it."
            )
            return Reply(text, buttons=(Button("Delete", f"/delete {name} confirm"),))
        if state is None:
            return Reply(BLIND)
        reader = (await request.standing(None)).reader
        done = await self.lifecycle.delete(state, request.caller.principal, reader=reader, typed=request.typed)
        return Reply(told_of(done), done.label) if shown and done.known else Reply(BLIND)

    async def _do(
        self,
        request: CommandRequest,
        argument: str,
        act: Callable[[SessionState, str], Awaitable[None]],
        told: str,
    ) -> Reply:
        state, shown = await self._found(request, argument.strip())
        if state is not None and shown:
            await act(state, request.caller.principal)
            return Reply(told, state.visibility)
        if state is not None:
            try:
                await act(state, request.caller.principal)
            except RequestError:
                # Why it cannot be done is not told here either.
                return Reply(BLIND)
        return Reply(BLIND)

    async def _found(self, request: CommandRequest, named: str) -> tuple[SessionState | None, bool]:
        """Return a session of the caller's and whether it may be told of here; None where it is not theirs.

        Raises CommandError: this conversation has not begun, or it is a shared chat's and the caller no admin.
        """
        if not named or named == request.sid:
            state = await self.sessions.state(request.sid)
            if state is None:
                raise CommandError(NOTHING_HERE)
            if await request.in_shared_chat() and not at_least(request.caller.role, Role.ADMIN):
                raise CommandError(ADMINS)
        else:
            state = await self.sessions.state(named) if len(named) <= LONGEST_ID else None
            if state is None or state.principal != request.caller.principal:
                return None, False
        return state, state.visibility.flows_to((await request.standing(None)).reader)
