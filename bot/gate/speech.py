"""What leaves for an address: answers and notices (hook PRE_OUTPUT), and the look again at the moment of sending."""

from dataclasses import replace
from typing import Final

from bot import labelling
from bot.crossings import Spoken
from bot.gate.decisions import Decisions
from bot.sessions.deliveries import OURS, Delivery
from bot.sessions.releases import Release
from bot.standing import Standing
from channels.message import Address
from policy.decision import Decision, Outcome, Verdict, combined
from policy.labels import PUBLIC, Label
from policy.request import Destination, Hook, Request, Role

_OTHER_BYTES: Final = Outcome(
    "fails_closed", Verdict.BLOCK, fixed=True, message="what would be sent is not what was shown"
)


class Speech(Decisions):
    """Decides on every text before it leaves."""

    def speak(
        self,
        standing: Standing,
        destination: Destination,
        text: str,
        *,
        approved: tuple[str, ...] = (),
        carried: Label = PUBLIC,
    ) -> Spoken:
        """Decide on a text leaving for an address (hook PRE_OUTPUT).

        `approved` are the rules people lifted for it, `carried` is the label of what it holds by reference.
        """
        _, lowered = labelling.asked_anew(self.document, standing.home, standing.role, destination)
        request = replace(
            self._request(Hook.PRE_OUTPUT, standing),
            destination=destination,
            content=text,
            carried=carried,
            lowered=lowered if destination.address == str(standing.home) else None,
        )
        decision = self._lifting(request, standing.now, approved)
        return Spoken(decision, self.cleaned(text, decision), destination)

    def beginning(self, standing: Standing, destination: Destination, text: str) -> Decision | None:
        """Decide on the beginning of an answer that is not finished (hook PRE_OUTPUT).

        None where a rule would look at what is said: it may judge the whole otherwise than its beginning.
        """
        request = replace(self._request(Hook.PRE_OUTPUT, standing), destination=destination, content=text)
        if self._engine.looks_inside(request):
            return None
        decision = self._decide(request, standing.now)
        return decision if self.cleaned(text, decision) == text else None

    def reply(self, standing: Standing, destination: Destination, text: str, label: Label) -> Spoken:
        """Decide on a command's answer or a notice: it is judged by what it tells, not by what was read (law 3).

        A rule that asks for approvals asks about what an agent says; a person's own question needs none, or
        nobody could be shown what to approve.
        """
        return self.speak(replace(standing, taint=label), destination, text, approved=OURS)

    def release(self, standing: Standing, destination: Destination, text: str, label: Label) -> Spoken:
        """Decide on a person's release of a text of this label (the sole exception of law `no_write_down`).

        It counts for a person who holds the right, where he and the address he is at are cleared for the text. It
        lifts no other rule: one that asks people is not lifted either.
        """
        shown = self.document.may_release(standing.principal) and label.flows_to(standing.reader)
        request = replace(
            self._request(Hook.PRE_OUTPUT, replace(standing, taint=label)),
            destination=destination,
            content=text,
            released=standing.principal if shown else "",
        )
        decision = self._decide(request, standing.now)
        return Spoken(decision, self.cleaned(text, decision), destination)

    def recheck(self, delivery: Delivery, destination: Destination, now: int, release: Release | None = None) -> Spoken:
        """Decide again on a text at the moment of sending, `now` in milliseconds, against who reads there then.

        An approval given for it stands; everything else is decided afresh, by the policy in force now. `release` is
        the record that the delivery refers to: it counts for exactly these bytes, this label and this destination,
        cleared as when it was shown, while whoever released it may.
        """
        released = (
            release is not None
            and release.covers(delivery, destination)
            and self._may_release(release.principal, delivery.label)
        )
        request = Request(
            hook=Hook.PRE_OUTPUT,
            principal="outbox",
            role=Role.MEMBER,
            channel=destination.channel,
            taint=delivery.label,
            ceiling=self.document.top,
            provider=self.document.top,
            home=destination.clearance or PUBLIC,
            destination=destination,
            content=delivery.text,
            released=release.principal if release is not None and released else "",
        )
        decision = self._lifting(request, now, delivery.approved)
        text = self.cleaned(delivery.text, decision)
        if released and text != delivery.text:
            # What would be sent is not what the person was shown.
            decision = replace(decision, verdict=Verdict.BLOCK, outcomes=(*decision.outcomes, _OTHER_BYTES))
        return Spoken(decision, text, destination)

    def _may_release(self, principal: str, label: Label) -> bool:
        person = self.document.principals.get(principal)
        return person is not None and person.may_release and label.flows_to(person.clearance)

    def _with_output(
        self,
        standing: Standing,
        decision: Decision,
        says: tuple[Address, str],
        *,
        approved: tuple[str, ...],
        carried: Label,
    ) -> Decision:
        """Return a sending call's decision joined with that on its text; who reads there is asked when it is sent."""
        address, text = says
        clearance = labelling.told_at(self.document, address)
        shared = self.document.chat(address.channel, address.workspace, address.chat) is not None
        there = Destination(str(address), address.channel, clearance, shared=shared)
        said = self.speak(standing, there, text, approved=approved, carried=carried)
        return combined(decision, said.decision)
