"""Inspections: one request to a model about held items, without tools, history or memory.

The gate decides on each model asked, with that model's clearance, at the join of the session's taint with the labels of
the items. Before that a number of tokens is charged at the session's own level. The call alone fixes it, so this charge
tells nothing of the items. The tokens that were really used are charged at the level of the answer, if
that is another one, and stand in the audit.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from bot.access.decision_context import DecisionContext
from bot.agent.chain import Chain
from bot.agent.context import text_of
from bot.agent.models import ModelError
from bot.agent.offline import INSPECT
from bot.agent.recap import beside
from bot.agent.window import CHARACTERS
from bot.budgets import Budget, BudgetError
from bot.delegation import structured_result
from bot.gate.gate import Gate
from bot.gate.results import decision_row, explained
from bot.sessions.models import Inspected, Inspection
from bot.sessions.ports.people import AuditStore
from policy.decision import Verdict
from policy.labels import Label
from policy.request import Hook

PER_ITEM: Final = 40_000
"""The most characters that the items may have, for each of them: it fixes the tokens that are charged."""

TOO_LONG: Final = f"the held items are too long to be read at once, which is {PER_ITEM:,} characters for each"
NO_ANSWER: Final = "the model gave no answer"

_NO_TOOLS: Final = ModelRequestParameters()


class Inspector:
    """Asks the models of a session about held items."""

    def __init__(self, chain: Chain, gate: Gate, audit: AuditStore, budget: Budget) -> None:
        self._chain = chain
        self._gate = gate
        self._audit = audit
        self._budget = budget

    async def __call__(self, standing: DecisionContext, inspection: Inspection) -> Inspected:
        """Return the answer, which has the taint of `standing`; a failure is returned, not raised.

        Raises StoreError: the store does not answer.
        """
        own = replace(standing, taint=inspection.before, allowance=inspection.allowance)
        try:
            await self._chain.ready(standing)
            tokens = _characters(inspection) // CHARACTERS + self._chain.longest_answer(standing)
            await self._budget.charge(own, tokens)
        except ModelError as error:
            return Inspected("", error.told)
        except BudgetError as error:
            await self._audit.append((error.row(own),))
            return Inspected("", str(error))
        if inspection.veil:
            return Inspected("", inspection.veil)
        return await self._asked(replace(standing, prepaid=_pool(own) == _pool(standing)), inspection)

    async def _asked(self, standing: DecisionContext, inspection: Inspection) -> Inspected:
        record = partial(beside, self._audit, standing.sid)
        decision = self._gate.requests.invoke(standing)
        await record(decision_row(standing, Hook.AGENT_INVOCATION, decision, call=inspection.call))
        if decision.verdict is not Verdict.ALLOW:
            return Inspected("", explained(decision, standing.taint, "this inspection"))
        messages = _request(inspection)
        if sum(map(len, inspection.texts)) > PER_ITEM * len(inspection.texts) or not self._chain.window(standing).holds(
            messages, _NO_TOOLS
        ):
            return Inspected("", TOO_LONG)
        try:
            response, usage = await self._chain.ask(standing, messages, _NO_TOOLS, record=record, learns=False)
        except ModelError as error:
            return Inspected("", error.told, error.usage)
        text = text_of(response).strip()
        return Inspected(text, "" if text else NO_ANSWER, usage)


def _characters(inspection: Inspection) -> int:
    """Return the most characters of a request, as the call alone fixes them."""
    asked = len(inspection.question) + len(_wanted(inspection)) + len(INSPECT)
    return asked + PER_ITEM * len(inspection.texts)


def _pool(standing: DecisionContext) -> Label:
    """Return the label of the budgets that a session's use of models is charged to."""
    return standing.taint.join(standing.visibility).secrecy


def _wanted(inspection: Inspection) -> str:
    return structured_result.instruction(inspection.fields) if inspection.fields else ""


def _request(inspection: Inspection) -> list[ModelMessage]:
    """Return the request; the lines of an item are indented, so that none of them begins another part."""
    told = [f"Question: {inspection.question}", _wanted(inspection)]
    told += [f"Material {number}:\n{text}".replace("\n", "\n  ") for number, text in enumerate(inspection.texts, 1)]
    return [ModelRequest(parts=[UserPromptPart("\n\n".join(filter(None, told)))], instructions=INSPECT)]
