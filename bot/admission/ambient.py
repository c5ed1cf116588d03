"""Messages in a shared chat that were not addressed to the bot, from before a person spoke to it there.

They are kept beside the session, outside its context, where the policy says so for that chat. The next message to the
bot admits them, as one item of its own: always UNTRUSTED, quoted, and with the label that the chat had when they were
written. The log tells which were admitted, so that none enters twice. A message never fails because of them: texts that
the gate does not admit are left where they are.

A text in no thread is kept once, for the chat. A thread that begins with it reads it there.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling
from bot.admission.wording import overheard
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, decision_row
from bot.history import event_log
from bot.rates import SharedRates
from bot.sessions.audit import AuditRow
from bot.sessions.inbox import InboxItem, NewObserved, Observed
from bot.sessions.log.events import NewEvent
from bot.sessions.ports.sessions import ObservedStore
from bot.turn import OpenTurn
from channels.messages import Address, How, Inbound
from policy.labels import Label, join_all
from policy.request import Hook, Role

LONGEST: Final = 1000
"""The most characters of a text that are shown."""

_MARGIN: Final = 300
"""The characters that are kept after those, so that no part of a text that a rule replaces is shown."""

_BEGINNINGS: Final = 200
"""The most texts of a chat that are kept where each may begin a thread."""

_ACCOUNT: Final = 20
_PLACE: Final = 60
"""How many texts a minute are kept of one account and of one chat. Nobody is told of the others."""

_THREADS: Final = 100
_DAY: Final = 24 * 60 * 60
"""In how many threads within so many seconds texts of one account are kept: each takes space of its own."""

_FIRST: Final = 1
"""The generation of a session that was never reset."""

SessionId = Callable[[Address], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Heard:
    """The observed messages that are admitted beside a message: their event, the resulting label, and the decision.

    Without an event nothing is admitted.
    """

    label_after: Label
    event: NewEvent | None = None
    audit: tuple[AuditRow, ...] = ()


class Observer:
    """Keeps observed messages and admits them. `session_id` returns the session of an address."""

    def __init__(self, store: ObservedStore, gate: Gate, session_id: SessionId, rates: SharedRates) -> None:
        self._store = store
        self._gate = gate
        self._session_id = session_id
        self._accounts = rates.limiter("overheard account", _ACCOUNT)
        self._places = rates.limiter("overheard place", _PLACE)
        self._threads = rates.limiter("overheard threads", _THREADS, _DAY)

    async def keep(self, inbound: Inbound) -> bool:
        """Keep a message that was not addressed to the bot in a shared chat, and say whether it is kept.

        Raises StoreError: it could not be kept.
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
        if not await self._allows(inbound, label):
            return False
        kept = LONGEST + _MARGIN
        # Before it is cut: part of a secret's value could not be recognised any more.
        text = self._gate.masks.scrubbed(said, kept)[:kept]
        new = NewObserved(inbound.identity, inbound.account, label, text, address.thread if inbound.opens else "")
        where, most = (address.place, max(most, _BEGINNINGS)) if inbound.opens else (address, most)
        await self._store.observe(await self._session_id(where), new, most)
        return True

    async def before(self, turn: OpenTurn, item: InboxItem, taint: Label) -> Heard:
        """Return the observed messages to admit beside a message, which itself raises the session to `taint`."""
        home, document = turn.standing.home, self._gate.document
        most = document.observed(home.channel, home.workspace, home.chat)
        if not most or item.body.origin is not None:
            return Heard(taint)
        opens, after = item.body.opens, turn.folds.overheard
        found = await self._found(turn, item, where=home.place if opens else home, after=after, most=most)
        # Texts kept beside another session do not move this one's position.
        upto = found[-1].id if found and not opens else ""
        if home.thread and not opens and turn.standing.generation == _FIRST and turn.folds.foreign is None:
            # The thread may have begun with a text that was observed in the chat. After a reset that is forgotten.
            said = await self._found(turn, item, where=home.place, after="", most=_BEGINNINGS)
            found = [*(one for one in said if one.opens == home.thread), *found]
        return self._decided(turn, item, taint, kept=found, upto=upto) if found else Heard(taint)

    async def _found(self, turn: OpenTurn, item: InboxItem, *, where: Address, after: str, most: int) -> list[Observed]:
        """Return the texts kept at a place before a message, without those of people who are blocked by now."""
        sid, until, blocked = await self._session_id(where), item.accepted_at, self._gate.document.blocked
        found = await self._store.heard(sid, after=after, until=until, now=turn.claim.now, most=most)
        return [one for one in found if one.account not in blocked]

    def _author(self, account: str) -> str:
        """Return the principal of an account, or the account itself if it has none."""
        known = self._gate.document.principal(account)
        return account if known is None else known[0]

    async def _allows(self, inbound: Inbound, label: Label) -> bool:
        """Count a text, once if it is redelivered; say whether the limits of that account and chat allow to keep it.

        An account is counted apart for each level of its texts, so that no chat reveals a higher one (ADR 0015).
        """
        account, address, identity = f"{inbound.account} {label.secrecy}", inbound.address, inbound.identity
        return (
            await self._accounts.allows(account, identity)
            and (inbound.opens or not address.thread or await self._threads.allows(account, str(address)))
            # Last of all: texts that are not kept for one account do not use up the limit of the others.
            and await self._places.allows(str(address.place), identity)
        )

    def _decided(self, turn: OpenTurn, item: InboxItem, taint: Label, *, kept: list[Observed], upto: str) -> Heard:
        standing, label = replace(turn.standing, taint=taint), join_all(one.label for one in kept)
        decision = self._gate.requests.admit(standing, label, "\n".join(one.text for one in kept)).decision
        row = decision_row(standing, Hook.PRE_CONTEXT_INJECTION, decision, position=item.position, observed=len(kept))
        if decision.verdict not in MAY_GO_ON:
            return Heard(taint, audit=(row,))
        said = [(one.account, self._gate.masks.cleaned(one.text, decision)[:LONGEST]) for one in kept]
        event = event_log.observed(
            standing, overheard(said), label=label, upto=upto, authors={self._author(one.account) for one in kept}
        )
        return Heard(decision.label_after, event, (row,))
