"""What people said in a shared chat before somebody spoke to the bot there, and not to it.

It is kept beside the session, outside its context, where the policy says so for that chat. The next message to the bot
lets it in, as one item of its own: UNTRUSTED whoever said it, quoted, and with the label that the chat had when it was
said. What was let in is told by the log, so that nothing enters twice. A message never fails because of it: what the
gate does not let in is left where it is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from bot import events, labelling
from bot.gate.decisions import MAY_GO_ON
from bot.gate.gate import Gate
from bot.intake.wording import overheard
from bot.sessions.events import Event, EventType, NewEvent
from bot.sessions.observed import NewObserved, Observed, ObservedStore
from bot.sessions.records import AuditRow
from bot.sessions.values import InboxItem
from bot.turn import OpenTurn
from channels.message import Address, How, Inbound
from policy.labels import Label, join_all
from policy.request import Hook, Role

LONGEST: Final = 1000
"""Characters of a text that are shown."""

_MARGIN: Final = 300
"""Characters that are kept behind those, so that no secret is cut in two and shown in part."""

SessionId = Callable[[Address], str]


@dataclass(frozen=True, slots=True)
class Heard:
    """What is let in beside a message: its event, the label that results, and the decision on it.

    Without an event nothing is let in.
    """

    label_after: Label
    event: NewEvent | None = None
    audit: tuple[AuditRow, ...] = ()


class Observer:
    """Keeps what is said and lets it in. `session_id` names the session of an address."""

    def __init__(self, store: ObservedStore, gate: Gate, session_id: SessionId) -> None:
        self._store = store
        self._gate = gate
        self._session_id = session_id

    async def keep(self, inbound: Inbound) -> bool:
        """Keep what somebody said in a shared chat and not to the bot, and say whether it is kept.

        Raises StoreError: it could not be.
        """
        document, address = self._gate.document, inbound.address
        most = document.observed(address.channel, address.workspace, address.chat)
        said = "\n".join(filter(None, (inbound.text, *inbound.quoted)))
        if (
            not most
            or not said
            or inbound.private
            or inbound.how is not How.TEXT
            or inbound.account in document.blocked
        ):
            return False
        label = labelling.inbound(document, address, Role.STRANGER, authored=False, shared=True)
        dedupe = f"{address.channel}/{inbound.dedupe}"
        new = NewObserved(dedupe, inbound.account, label, said[: LONGEST + _MARGIN])
        # What stands in no thread may become the beginning of one, and is what people talk of in the chat as well.
        for where in dict.fromkeys((address, address.place if inbound.opens else address)):
            await self._store.observe(self._session_id(where), new, most)
        return True

    async def before(self, turn: OpenTurn, item: InboxItem, taint: Label) -> Heard:
        """Return what is let in beside a message, which itself raises the session to `taint`."""
        home, document = turn.standing.home, self._gate.document
        most = document.observed(home.channel, home.workspace, home.chat)
        if not most or item.body.get("origin") is not None:
            return Heard(taint)
        where = home.place if item.body.get("opens") else home
        after, sid = _newest((*turn.history, *turn.admitted)), self._session_id(where)
        found = await self._store.observed(sid, after=after, until=item.accepted_at, now=turn.claim.now, most=most)
        kept = [one for one in found if one.account not in document.blocked]
        return self._decided(turn, item, taint, kept) if kept else Heard(taint)

    def _decided(self, turn: OpenTurn, item: InboxItem, taint: Label, kept: list[Observed]) -> Heard:
        standing, label = replace(turn.standing, taint=taint), join_all(one.label for one in kept)
        decision = self._gate.admit(standing, label, "\n".join(one.text for one in kept)).decision
        row = self._gate.row(standing, Hook.PRE_CONTEXT_INJECTION, decision, position=item.position, observed=len(kept))
        if decision.verdict not in MAY_GO_ON:
            return Heard(taint, audit=(row,))
        said = [(one.account, self._gate.cleaned(one.text, decision)[:LONGEST]) for one in kept]
        # Of what was kept beside another session nothing is to be passed over in this one.
        upto = "" if item.body.get("opens") else kept[-1].id
        event = events.observed(standing, overheard(said), label, upto)
        return Heard(decision.label_after, event, (row,))


def _newest(history: Iterable[Event | NewEvent]) -> str:
    """Return the id up to which something was let in from beside this session, empty for none."""
    found = [str(event.body["upto"]) for event in history if event.type is EventType.OBSERVED]
    return found[-1] if found else ""
