"""Commands about decisions: the reasons of a refusal, and the gate's decision about a call that is not made."""

from dataclasses import dataclass
from typing import Final

from bot.access import principals
from bot.commands.command import CommandRequest, Reply, UsageError
from bot.history import event_log
from bot.operations import simulation
from bot.operations.simulation import CallArgumentsError, Simulating, Simulator
from bot.sessions.log.event_types import PolicyDecision
from bot.sessions.models import SessionQuery, SessionState
from bot.sessions.ports.sessions import SessionIndex, SessionStore
from bot.sessions.transcript import backwards
from channels.messages import Address
from policy.decision import Verdict
from policy.labels import PUBLIC, Label, join_all

MOST_THREADS: Final = 50
"""How many of a chat's threads are looked through, those that changed last."""

MOST_DENIALS: Final = 5
"""How many denials of a turn are told, the newest ones."""

MORE: Final = "More was refused in this turn; these were the last."

NOTHING_REFUSED: Final = "Nothing was refused in this conversation."

_REFUSED: Final = frozenset({Verdict.BLOCK, Verdict.REQUIRE_APPROVAL})


@dataclass(frozen=True, slots=True)
class DecisionCommands:
    """Explain denials, and simulate calls."""

    sessions: SessionStore
    index: SessionIndex
    simulator: Simulator

    async def why(self, request: CommandRequest, argument: str) -> Reply:
        """Explain the denials of the newest turn that had any; in a shared chat the caller's own, in any thread."""
        if argument:
            raise UsageError("")
        own = await request.state()
        states = () if own is None else (own,)
        reader, asker = (await request.standing(own)).reader, ""
        if await request.in_shared_chat():
            asker = request.caller.principal
            listed = SessionQuery(principals.of_chat(request.address), reader, limit=MOST_THREADS)
            threads = (await self.index.listed(listed)).sessions
            states += tuple(state for state in threads if state.sid != request.sid and self._is_here(request, state))
        found = [denials for state in states if (denials := await self._last_denials(state, reader, asker))]
        # The absence of a refusal tells of this conversation as much as a refusal.
        known = PUBLIC if own is None else own.visibility
        if not found:
            return Reply(NOTHING_REFUSED, known)
        newest = max(found, key=lambda denials: denials[-1].ts)
        texts = list(dict.fromkeys(denial.decision.text for denial in newest))
        more = [MORE] if len(texts) > MOST_DENIALS else []
        label = join_all((denial.label for denial in newest), known)
        return Reply("\n\n".join((*more, *texts[-MOST_DENIALS:])), label)

    def _is_here(self, request: CommandRequest, state: SessionState) -> bool:
        """Say whether a session is of the chat at hand, in any of its threads."""
        return Address.parse(state.home).place == request.address.place

    async def _last_denials(self, state: SessionState, reader: Label, asker: str) -> "tuple[_Denial, ...]":
        """Return the decisions that refused something in the newest such turn, oldest first, `asker`'s if one is named.

        At most one more than are told.
        """
        found, turn = list[_Denial](), ""
        async for event in backwards(self.sessions, state):
            # An event outside any turn, such as that of a pause, may stand within one.
            if found and (event.turn not in {turn, ""} or len(found) > MOST_DENIALS):
                break
            told = event_log.decision_in(event)
            if told is None or told.verdict not in _REFUSED or (asker and told.asker != asker):
                continue
            # A question that ended in a refusal is over, so the remedies of that question are not told again.
            if told.verdict is Verdict.REQUIRE_APPROVAL and told.about in {one.decision.about for one in found}:
                continue
            # A denial that tells of a held item is shown only where that may be known (law `no_read_up`).
            if event.label.flows_to(reader.join(state.visibility)):
                found.append(_Denial(event.ts, told, event.label.join(state.visibility)))
                turn = event.turn
        return tuple(reversed(found))

    async def simulate(self, request: CommandRequest, argument: str) -> Reply:
        """Tell the gate's decision about a call; it is audited, and nothing else happens."""
        tool, _, rest = argument.partition(" ")
        try:
            arguments = simulation.call_arguments(rest.strip())
        except CallArgumentsError as error:
            raise UsageError(str(error)) from None
        if not tool:
            raise UsageError("")
        state = await request.state()
        standing = await request.standing(state)
        by = Simulating(standing, request.address, standing.reader)
        report = await self.simulator.asked(by, state, tool, arguments)
        return Reply("\n".join(simulation.lines(report)), PUBLIC if state is None else state.visibility)


@dataclass(frozen=True, slots=True)
class _Denial:
    """A decision that refused something, its time, in milliseconds on the store's clock, and the label of its text."""

    ts: int
    decision: PolicyDecision
    label: Label
