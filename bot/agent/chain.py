"""The models of the configuration, asked in turn.

The clearance of the first model decides which data a session may read, so that model is cleared for the context. A
fall-back is another provider: the gate decides on each anew, with its own clearance, and one that is not cleared is
passed over. Its decision stands in the audit before it is asked.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import anyio.to_thread
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters

from bot.access.agents import AgentSnapshot
from bot.access.decision_context import DecisionContext
from bot.agent.models import CROWDED, ModelClient, ModelError, OverBudgetError, Show, TooLargeError, barred, unusable
from bot.agent.providers import Seat, Seats
from bot.agent.window import ANSWER, Window, estimated
from bot.core.errors import ConfigError
from bot.core.faults import Fault
from bot.gate.gate import Gate
from bot.gate.results import decision_row
from bot.sessions.audit import AuditRow
from bot.sessions.usage import Usage
from policy.decision import Verdict
from policy.request import Hook

Record = Callable[[AuditRow], Awaitable[None]]
"""Puts a decision into the audit."""


_Models: TypeAlias = tuple[tuple[str, ...], str, tuple[str, ...]]
"""The models of an agent, the secret that is their key, and those that had an address or a key of their own."""


class Chain:
    """Asks the first model of a session's agent, and the fall-backs if it does not answer."""

    def __init__(self, seats: Seats, asker: ModelClient, gate: Gate) -> None:
        self._seats = seats.all
        self._make = seats.make
        self._made: dict[_Models, tuple[Seat, ...]] = {}
        self._named = {seat.name: seat for seat in (*seats.all, *seats.choices)}
        self._asker = asker
        self._gate = gate
        self._refused: dict[str, int] = {}

    def make(self, agent: AgentSnapshot) -> None:
        """Make the models of an agent, unless they are made. It blocks.

        Raises ConfigError: one of them cannot be asked, since its key, its address or its package is not there.
        """
        if _models(agent) not in self._made:
            self._made[_models(agent)] = self._make(agent)

    async def ready(self, standing: DecisionContext) -> None:
        """Make the models of a session, before anything else here is asked about it.

        Raises ModelError: it cannot be asked until the operator mends the fault; the operator is notified.
        """
        agent = standing.agent
        if agent is None or _models(agent) in self._made:
            return
        try:
            # The libraries of models take their time to load.
            await anyio.to_thread.run_sync(self.make, agent)
        except ConfigError as error:
            raise barred(standing, f"agent `{agent.name}`", Fault(str(error), error.next_step)) from None

    def window(self, standing: DecisionContext) -> Window:
        """Return the window of the model that is asked first."""
        return self._window(self._order(standing)[0])

    def crowded(self, standing: DecisionContext, parameters: ModelRequestParameters) -> ModelError | None:
        """Return the error for a model that cannot be asked since its tools alone fill its window, None if they do not.

        It is logged, for only the operator can mend it.
        """
        seat = self._order(standing)[0]
        window = self._window(seat)
        return unusable(standing, seat, CROWDED) if window.crowded(parameters) else None

    def longest_answer(self, standing: DecisionContext) -> int:
        """Return the most tokens of an answer of the model that is asked first."""
        return self._order(standing)[0].settings.output_tokens or ANSWER

    def _window(self, seat: Seat) -> Window:
        return Window.of(seat, self._refused.get(seat.name))

    def sees(self, standing: DecisionContext) -> bool:
        """Say whether a model that may be asked sees pictures."""
        return any(seat.sees for seat in self._order(standing))

    def _order(self, standing: DecisionContext) -> tuple[Seat, ...]:
        """Return the models in the order they are asked: the one that people chose, then the fall-backs."""
        chain = self._seats if standing.agent is None else self._made[_models(standing.agent)]
        name = self._gate.requests.model(standing)
        first = next((seat for seat in chain if seat.name == name), None) or self._named[name]
        return (first, *(seat for seat in chain[1:] if seat is not first))

    async def ask(
        self,
        standing: DecisionContext,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
        *,
        record: Record,
        show: Show | None = None,
        learns: bool = True,
    ) -> tuple[ModelResponse, Usage]:
        """Return a response and the cost of all attempts at it; the decision on the first model is the caller's.

        Raises:
            ModelError: no model that may be asked answered; it tells of the first, or of the first that may answer
                another time.
            OverBudgetError: no further one is asked then, since it would be at the cost of the same budget.
            TooLargeError: the first one's provider says that it does not fit. If it `learns`, that is known from then
                on, and other sessions may notice it.
        """
        used, failures = Usage(), list[ModelError]()
        for seat in self._order(standing):
            if failures:
                decision = self._gate.requests.invoke(standing, seat.name)
                await record(decision_row(standing, Hook.AGENT_INVOCATION, decision, model=seat.name))
                if decision.verdict is not Verdict.ALLOW:
                    why = f"{seat.name}: not cleared for {standing.taint}"
                    failures.append(ModelError("", detail=why, again=False))
                    continue
                if not self._window(seat).holds(messages, parameters):
                    failures.append(ModelError("", detail=f"{seat.name}: its window is too small", again=False))
                    continue
            try:
                response, usage = await self._asker.ask(standing, seat, messages, parameters=parameters, show=show)
                return response, used.plus(usage)
            except OverBudgetError as error:
                error.usage = used.plus(error.usage)
                await record(error.row)
                raise
            except TooLargeError as error:
                if learns:
                    self._learn(seat, estimated(messages, parameters))
                used = error.usage = used.plus(error.usage)
                if not failures:
                    raise
                failures.append(error)
            except ModelError as error:
                used = used.plus(error.usage)
                failures.append(error)
        raise _all(failures, used)

    def _learn(self, seat: Seat, size: int) -> None:
        """Note that a model's provider refused a request of this size in tokens."""
        self._refused[seat.name] = min(self._refused.get(seat.name, size), size)


def _models(agent: AgentSnapshot) -> _Models:
    return agent.models, agent.credential, agent.addressed


def _all(failures: Sequence[ModelError], used: Usage) -> ModelError:
    """Return one error for all attempts; if asking again may help with one of them, the error says so."""
    detail = "; ".join(failure.detail for failure in failures)
    mend = "\n".join(failure.mend for failure in failures if failure.mend)
    told = next((failure for failure in failures if failure.again), failures[0])
    return ModelError(str(told), detail=detail, usage=used, again=told.again, mend=mend)
