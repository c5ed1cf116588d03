"""`/memory mode`: a conversation's use of memories, and changing that.

An agent has a usual use. People choose less of it for a conversation, and an admin more; a use that is off for an agent
stays off. A choice outlives a reset: a switch that was turned off is not turned on by beginning anew.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.access.authorize import at_least
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.commands.models import NOT_BEGUN
from bot.core.ids import Ids
from bot.sessions.audit import AuditRow
from bot.sessions.knowledge.memories import MemoryUse
from bot.sessions.models import Write
from bot.sessions.ports.sessions import SessionStore
from policy.request import Role

MEANINGS: Final = MappingProxyType(
    {
        MemoryUse.OFF: "the agent has no memories here",
        MemoryUse.TOOL: "the agent recalls memories when it asks for them",
        MemoryUse.AUTO: "memories that fit a message are recalled with it",
    }
)
OFF: Final = "The agent of this conversation has no memories."
WIDER: Final = "More than the agent of this conversation has needs the role admin."
SHARED: Final = "In a shared chat this needs the role approver."

_MODES: Final = frozenset(MemoryUse)


@dataclass(frozen=True, slots=True)
class MemoryUseCommands:
    """Show and choose a conversation's use of memories."""

    sessions: SessionStore
    ids: Ids

    async def mode(self, request: CommandRequest, argument: str) -> Reply:
        """Tell the mode of this conversation, or choose one."""
        if not argument:
            return await self._shown(request)
        if argument not in _MODES:
            raise UsageError("say `auto`, `tool` or `off`")
        return await self._chosen(request, MemoryUse(argument))

    async def _shown(self, request: CommandRequest) -> Reply:
        state = await request.state()
        agent = await request.agent(state)
        if state is None:
            return Reply(_told(agent.memory))
        return Reply(_told(agent.using(state.memory).memory), state.visibility)

    async def _chosen(self, request: CommandRequest, chosen: MemoryUse) -> Reply:
        state = await request.state()
        usual = (await request.agent(state)).memory
        if await request.in_shared_chat() and not at_least(request.caller.role, Role.APPROVER):
            raise CommandError(SHARED)
        if chosen.wider_than(usual):
            if usual is MemoryUse.OFF:
                raise CommandError(OFF)
            if not at_least(request.caller.role, Role.ADMIN):
                raise CommandError(WIDER)
        if state is None:
            raise CommandError(NOT_BEGUN)
        before = usual.narrowed(state.memory)
        row = AuditRow("memory_mode", request.caller.principal, {"before": before.value, "after": chosen.value})
        async with request.claimed(self.ids.owner()) as claim:
            write = Write(op=self.ids.op(), cursor=claim.state.seq, audit=(row,), release=True, memory=chosen)
            await self.sessions.record(claim, write)
        return Reply(_told(chosen), state.visibility)


def _told(use: MemoryUse) -> str:
    return f"Memories {use}: {MEANINGS[use]}."
