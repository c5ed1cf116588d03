"""Texts that leave for an address: answers and notices (hook PRE_OUTPUT), and their second check when sent."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from bot.access import labelling
from bot.access.authorize import may_release
from bot.access.decision_context import DecisionContext
from bot.gate.judge import Judge, seen, together
from bot.gate.results import OutputDecision
from bot.sessions.consents.releases import Release
from bot.sessions.deliveries import OURS, Delivery
from channels.messages import Address, Button
from policy.decision import Decision, RuleOutcome, Verdict, combined
from policy.labels import PUBLIC, Label
from policy.request import Destination, Hook, Request, Role

_OTHER_BYTES: Final = RuleOutcome(
    "fails_closed", Verdict.BLOCK, fixed=True, message="the text to send differs from the text that was shown"
)
_ON_BUTTONS: Final = RuleOutcome(
    "fails_closed", Verdict.BLOCK, fixed=True, message="the text on a button cannot be replaced"
)


class OutputGate:
    """Decides on every text before it leaves."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def speak(
        self,
        standing: DecisionContext,
        destination: Destination,
        text: str,
        *,
        approved: tuple[str, ...] = (),
        carried: Label = PUBLIC,
        buttons: tuple[Button, ...] = (),
    ) -> OutputDecision:
        """Decide on a text leaving for an address (hook PRE_OUTPUT), with the buttons under it.

        `approved` are the rules people lifted for it, `carried` is the label of the texts it holds by reference.
        """
        words = _words(buttons)
        request = replace(
            self._judge.request(Hook.PRE_OUTPUT, standing),
            destination=destination,
            content="\n".join((text, *words)),
            carried=carried,
        )
        request = self._judge.showing(request, text, *words, standing=standing)
        decision = self._judge.lifting(request, approved, partial(self._judge.settled, standing=standing))
        return self._spoken(decision, text, destination, words=words)

    def beginning(self, standing: DecisionContext, destination: Destination, text: str) -> Decision | None:
        """Decide on the beginning of an answer that is not finished (hook PRE_OUTPUT).

        None where a rule would look at the text: it may judge the whole differently from its beginning.
        """
        request = replace(self._judge.request(Hook.PRE_OUTPUT, standing), destination=destination, content=text)
        if self._judge.policy.engine.looks_inside(request):
            return None
        decision = self._judge.settled(request, standing)
        return decision if self._judge.masks.cleaned(text, decision) == text else None

    def reply(
        self,
        standing: DecisionContext,
        destination: Destination,
        text: str,
        label: Label,
        *,
        buttons: tuple[Button, ...] = (),
    ) -> OutputDecision:
        """Decide on a command's answer or a notice, by the label of its own content and not by the session's taint.

        A rule that asks for approvals asks about an agent's words. A person's own question needs no approval; otherwise
        people could not be shown the thing to approve.
        """
        return self.speak(replace(standing, taint=label), destination, text, approved=OURS, buttons=buttons)

    def release(self, standing: DecisionContext, destination: Destination, text: str, label: Label) -> OutputDecision:
        """Decide on a person's release of a text of this label (the sole exception of law `no_write_down`).

        It counts for a person who holds the right, where they and their present address are cleared for the text. It
        lifts no other rule: a rule that asks people is not lifted either.
        """
        shown = self._judge.document.may_release(standing.principal) and label.flows_to(standing.reader)
        request = replace(
            self._judge.request(Hook.PRE_OUTPUT, replace(standing, taint=label)),
            destination=destination,
            content=text,
            released=standing.principal if shown else "",
        )
        decision = self._judge.settled(self._judge.showing(request, text, standing=standing), standing)
        return OutputDecision(decision, self._judge.masks.cleaned(text, decision), destination)

    async def read_ahead(self, texts: Iterable[str]) -> None:
        """Read long texts of later decisions ahead, in a thread: the decisions then find them read."""
        await self._judge.read_ahead(texts)

    def looks_across(self, delivery: Delivery) -> bool:
        """Say whether earlier texts of the same turn to the same address matter for a delivery."""
        return (
            self._judge.policy.engine.scans_at(Hook.PRE_OUTPUT) and not delivery.release and delivery.approved != OURS
        )

    def recheck(
        self,
        delivery: Delivery,
        destination: Destination,
        now: int,
        release: Release | None = None,
        *,
        buttons: tuple[Button, ...] = (),
        before: tuple[str, ...] = (),
    ) -> OutputDecision:
        """Decide again on a text at the moment of sending, against the readers of its destination at that moment.

        An approval given for it stands; everything else is decided afresh, by the policy in force now.

        Args:
            delivery: The text.
            destination: The destination with its present readers.
            now: The time in milliseconds on the store's clock.
            release: Its record; it holds while its releaser has the right, for these bytes, label and destination.
            buttons: The buttons under the text.
            before: Earlier texts of its turn there; a match across them and this text belongs to this text.
        """
        released = (
            release is not None
            and release.covers(delivery, destination)
            and may_release(self._judge.document, release.principal, delivery.label)
        )
        words = _words(buttons)
        request = Request(
            hook=Hook.PRE_OUTPUT,
            principal="outbox",
            role=Role.MEMBER,
            channel=destination.channel,
            taint=delivery.label,
            ceiling=self._judge.document.top,
            provider=self._judge.document.top,
            home=destination.clearance or PUBLIC,
            destination=destination,
            content="\n".join((delivery.text, *words)),
            released=release.principal if release is not None and released else "",
        )
        request = self._judge.showing(request, delivery.text, *words)
        begun = self._begun(before, request)
        across = replace(request, shown=(*request.shown, *_following(begun, delivery.text)))
        decision = self._judge.lifting(across, delivery.approved, partial(self._judge.decided, now=now))
        spoken = self._spoken(decision, delivery.text, destination, words=words, begun=begun)
        if released and spoken.text != delivery.text:
            # The text to send differs from the one that the person was shown.
            return replace(spoken, decision=_blocked(spoken.decision, _OTHER_BYTES))
        return spoken

    def _begun(self, before: tuple[str, ...], request: Request) -> tuple[str, ...]:
        """Return the beginnings of matches in earlier texts, as written and as seen, without whole matches."""
        views = ("\n".join(before), together(before)) if before and self._judge.policy.engine.scans(request) else ()
        return tuple(self._judge.policy.engine.begun(view, request) for view in dict.fromkeys(views))

    def _spoken(
        self,
        decision: Decision,
        text: str,
        destination: Destination,
        *,
        words: tuple[str, ...],
        begun: tuple[str, ...] = (),
    ) -> OutputDecision:
        """Return a text as it may be sent.

        The words on its buttons cannot be replaced, nor a match that begins in an earlier text. Then the buttons are
        blocked, or the whole text is hidden.
        """
        cleaned = self._judge.masks.cleaned(text, decision)
        if self._judge.policy.engine.finds(_following(begun, cleaned), decision):
            cleaned = self._judge.policy.engine.hidden(decision)
        if words and self._judge.policy.engine.finds(
            ("\n".join((cleaned, *words)), *seen((cleaned, *words))), decision
        ):
            decision = _blocked(decision, _ON_BUTTONS)
        return OutputDecision(decision, cleaned, destination)

    def with_text(
        self,
        standing: DecisionContext,
        decision: Decision,
        says: tuple[Address, str],
        *,
        approved: tuple[str, ...],
        carried: Label,
    ) -> Decision:
        """Return a sending call's decision joined with that on its text; its readers are checked when it is sent."""
        address, text = says
        there = labelling.expected(self._judge.document, address)
        said = self.speak(standing, there, text, approved=approved, carried=carried)
        return combined(decision, said.decision)


def _words(buttons: tuple[Button, ...]) -> tuple[str, ...]:
    """Return all words that people see of buttons; some platforms write the command out."""
    return tuple(word for button in buttons for word in (button.label, button.command))


def _following(begun: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the visible forms of a text below the texts before it."""
    return tuple(f"{one}\n{view}" for one in begun for view in dict.fromkeys((text, *seen((text,)))))


def _blocked(decision: Decision, outcome: RuleOutcome) -> Decision:
    return replace(decision, verdict=Verdict.BLOCK, outcomes=(*decision.outcomes, outcome))
