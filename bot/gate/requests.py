"""Inputs of a session, its model calls, and its resets: each decided at its own hook."""

from dataclasses import replace

from bot.access.decision_context import DecisionContext
from bot.gate.judge import Judge
from bot.gate.origins import asked_of
from bot.gate.results import NOT_KNOWN, OutputDecision
from bot.tools.base import Tool
from policy.decision import Decision
from policy.labels import Label
from policy.request import Hook


class RequestGate:
    """Decides on items that enter a context, on calls of models, and on new generations."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def offered(self, standing: DecisionContext) -> tuple[Tool, ...]:
        """Return the tools that a model is offered in a turn: those of its agent that are for the asker."""
        return self._judge.offered(standing)

    def model(self, standing: DecisionContext) -> str:
        """Return the model that is asked first, empty if the session's agent cannot be read."""
        return self._judge.model(standing)

    def admit(self, standing: DecisionContext, label: Label, text: str) -> OutputDecision:
        """Decide on an item entering the context (hook PRE_CONTEXT_INJECTION)."""
        request = replace(self._judge.request(Hook.PRE_CONTEXT_INJECTION, standing), item=label, content=text)
        decision = self._judge.settled(request, standing)
        return OutputDecision(decision, self._judge.masks.cleaned(text, decision), standing.destination)

    def invoke(self, standing: DecisionContext, model: str = "") -> Decision:
        """Decide on a model call with the context as it is (hook AGENT_INVOCATION).

        `model` is a fall-back's name: its own provider's clearance counts then. The ceiling of a session's reads always
        comes from the model that is asked first.
        """
        if not self._judge.knows(standing):
            return self._judge.refused(standing, NOT_KNOWN)
        request = self._judge.request(Hook.AGENT_INVOCATION, standing)
        if model:
            request = asked_of(replace(request, provider=self._judge.document.provider(model)), model=model)
        return self._judge.settled(request, standing)

    def transcribe(self, standing: DecisionContext, label: Label, transcriber: str) -> Decision:
        """Decide on a transcriber hearing a recording of this label, and nothing else (hook AGENT_INVOCATION)."""
        if not self._judge.knows(standing):
            return self._judge.refused(standing, NOT_KNOWN)
        request = self._judge.request(Hook.AGENT_INVOCATION, replace(standing, taint=label))
        request = replace(request, provider=self._judge.document.transcriber(transcriber))
        return self._judge.settled(asked_of(request, transcriber=transcriber), standing)

    def reset(self, standing: DecisionContext, *, confirmed: bool) -> Decision:
        """Decide on a new generation (hook SESSION_RESET)."""
        return self._judge.settled(
            replace(self._judge.request(Hook.SESSION_RESET, standing), confirmed=confirmed), standing
        )

    def unapproved(self, standing: DecisionContext, why: str, decided: Decision) -> Decision:
        """Return a question to people as a BLOCK, since they did not approve; `why` is a constant."""
        return self._judge.unapproved(standing, why, decided)
