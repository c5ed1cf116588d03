"""`/release`: a person who holds that right sends exactly the bytes that they were shown below their label.

The sole exception to law `no_write_down`, in two steps. The first shows the text, its label and where it would go, and
keeps a record of exactly that. The second, with the record's code, sends it once. A person who does not hold the right
is answered as for an unknown command, and no tool reaches this: a model cannot type a command.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access import principals, recipients
from bot.access.decision_context import DecisionContext
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.commands.inbox.waiting import WaitingEntry
from bot.core.errors import NotFoundError
from bot.core.ids import Ids
from bot.core.invisible import unseen
from bot.delivery import time_left
from bot.gate.gate import Gate
from bot.gate.results import MAY_GO_ON, OutputDecision, decision_row
from bot.history import event_log
from bot.sessions.audit import AuditRow
from bot.sessions.consents import releases
from bot.sessions.consents.releases import Release
from bot.sessions.deliveries import NewDelivery
from bot.sessions.log.event_types import AgentMessage, ReleaseConfirmed, ReleaseRequested, UserMessage
from bot.sessions.log.events import Visibility
from bot.sessions.log.serialization import release_json
from bot.sessions.models import Claim, SessionState, Write
from bot.sessions.ports.delivery import OutboxStore
from bot.sessions.ports.sessions import SessionStore
from bot.sessions.refs import EventsRef, Ref
from bot.sessions.transcript import backwards, place
from channels.messages import Address, OutboundKind
from policy import explain
from policy.decision import Verdict
from policy.labels import PUBLIC, Label
from policy.request import Hook

CHANGED: Final = "Something has changed since this was shown, so nothing was sent. Ask for it again with `/release`."
WOULD_GO: Final = explain.LabelWording("The text to release is labelled", "With it")
"""The subjects of the labels of a refused release."""

WAITS: Final = "Message {place} may go to `{recipient}`, {left} left: `/release confirm {code}` sends it as shown."
UNSEEN: Final = "This text holds invisible characters, so the shown text would differ from the sent one."
NOT_WHOLE: Final = "This text cannot be shown whole here, so it cannot be released from here."

_LIFE: Final = 600_000
"""How long a code counts, in milliseconds."""


def may_release(request: CommandRequest) -> bool:
    """Say whether the caller holds the right."""
    return request.gate.document.may_release(request.caller.principal)


@dataclass(frozen=True, slots=True)
class ReleaseCommands:
    """Show the text that a release would send, and send it."""

    sessions: SessionStore
    outbox: OutboxStore
    gate: Gate
    ids: Ids
    deliver: Callable[[str], Awaitable[None]]

    async def release(self, request: CommandRequest, argument: str) -> Reply:
        """Show the text to send, or send the shown one."""
        words = argument.split()
        if await request.above(await request.state()):
            # The number of a text, and an open turn, tell of the data read since.
            raise NotFoundError
        if len(words) == 2 and words[0] == "confirm":  # noqa: PLR2004 - the word and the code
            return await self._confirm(request, words[1].lower())
        if len(words) == 3 and words[1] == "to":  # noqa: PLR2004 - the text, the word, and the recipient
            return await self._show(request, words[0].lower(), words[2])
        raise UsageError("")

    async def waiting(self, request: CommandRequest) -> tuple[WaitingEntry, ...]:
        """Return the texts of this conversation that were shown to the caller here and wait to be released."""
        state = await request.state()
        if state is None or not may_release(request) or await request.above(state):
            return ()
        found, done = list[WaitingEntry](), set[str]()
        async for event in backwards(self.sessions, state):
            if event.ts <= request.now - _LIFE:
                break
            if isinstance(event.body, ReleaseConfirmed):
                done.add(event.body.release.code)
            if not isinstance(event.body, ReleaseRequested) or event.body.release.code in done:
                continue
            shown = event.body.release
            if (shown.principal, shown.home) == (request.caller.principal, str(request.address)):
                text = WAITS.format(
                    place=shown.source,
                    recipient=shown.recipient,
                    left=time_left.spanned(max(0, shown.expires_at - request.now)),
                    code=shown.code,
                )
                found.append(WaitingEntry(event.ts, text, event.label.join(shown.label)))
        return tuple(found)

    async def _show(self, request: CommandRequest, which: str, recipient: str) -> Reply:
        """Show exactly what would be sent, and keep a record of it under a new code."""
        try:
            address, meant = await self._meant(request, recipient)
        except recipients.UnknownRecipientError:
            raise CommandError(recipients.UNKNOWN) from None
        state = await request.state()
        if state is None:
            raise NotFoundError
        source = await self._source(request, state, which)
        standing = await request.standing(state)
        spoken = await self._offered(standing, source, address)
        if spoken.decision.verdict not in MAY_GO_ON:
            return Reply(request.explained(spoken.decision, standing, "/release", WOULD_GO), source.label)
        if _hides(spoken.text):
            return Reply.refusing(CommandError(UNSEEN), source.label)
        shown = Release(
            code=self.ids.approval(),
            principal=request.caller.principal,
            home=str(request.address),
            source=source.place,
            digest=releases.digest(spoken.text),
            label=source.label,
            address=spoken.destination.address,
            clearance=spoken.destination.clearance or PUBLIC,
            recipient=recipient,
            meant=meant,
            expires_at=request.now + _LIFE,
        )
        told = _told(shown, spoken.text)
        said = self.gate.output.reply(standing, standing.destination, told, source.label)
        if said.decision.verdict is not Verdict.ALLOW or said.text != told:
            return Reply.refusing(CommandError(NOT_WHOLE), source.label)
        async with request.claimed(self.ids.owner()) as claim:
            await self.sessions.record(
                claim,
                Write(
                    op=self.ids.op(),
                    cursor=claim.state.seq,
                    events=(replace(event_log.release_requested(standing, shown), refs=source.refs),),
                    audit=(AuditRow("release", request.caller.principal, {"step": "shown", **release_json(shown)}),),
                    release=True,
                ),
            )
        return Reply(told, source.label)

    async def _confirm(self, request: CommandRequest, code: str) -> Reply:
        """Send the text shown under a code, once; any difference from then sends nothing."""
        if await request.state() is None:
            raise NotFoundError
        async with request.claimed(self.ids.owner()) as claim:
            shown, source = await self._shown(request, claim, code)
            standing = await request.standing(claim.state)
            spoken = await self._offered(standing, source, Address.parse(shown.address))
            means = await self._means(request, shown)
            delivery = NewDelivery(
                key=f"release-{code}",
                address=shown.address,
                text=spoken.text,
                label=source.label,
                kind=OutboundKind.MESSAGE,
                release=claim.state.seq + 1,
                meant_for=principals.owner(self.gate.document, Address.parse(shown.address)),
                refs=source.refs,
            )
            same = releases.digest(spoken.text) == shown.digest and source.label == shown.label
            cleared = shown.clearance == (spoken.destination.clearance or PUBLIC)
            if spoken.decision.verdict not in MAY_GO_ON or not same or not cleared or not means:
                return Reply.refusing(CommandError(CHANGED), source.label)
            row = decision_row(
                replace(standing, taint=source.label),
                Hook.PRE_OUTPUT,
                spoken.decision,
                destination=shown.address,
                release=code,
                released=[outcome.message for outcome in spoken.decision.outcomes if outcome.rule == "no_write_down"],
                digest=shown.digest,
            )
            confirmed = AuditRow("release", request.caller.principal, {"step": "confirmed", **release_json(shown)})
            await self.sessions.record(
                claim,
                Write(
                    op=self.ids.op(),
                    cursor=claim.state.seq,
                    # The first event of this write, at the seq that the delivery refers to.
                    events=(replace(event_log.release_confirmed(standing, shown), refs=source.refs),),
                    audit=(row, confirmed),
                    deliver=(delivery,),
                    release=True,
                ),
            )
        await self.deliver(request.sid)
        sent = [entry.state.value for entry in await self.outbox.deliveries(request.sid) if entry.key == delivery.key]
        return Reply(f"Released under {code}: {', '.join(sent)}.", source.label)

    async def _means(self, request: CommandRequest, shown: Release) -> bool:
        """Say whether the recipient's name still has the meaning that it had when the text was shown."""
        try:
            return (await self._meant(request, shown.recipient))[1] == shown.meant
        except recipients.UnknownRecipientError:
            return False

    async def _shown(self, request: CommandRequest, claim: Claim, code: str) -> "tuple[Release, _Source]":
        """Return the record of a code and the text.

        Raises NotFoundError: there is none of this generation, or it is another person's or place's, past its time, or
        was used.
        """
        async for event in backwards(self.sessions, claim.state):
            if not isinstance(event.body, ReleaseRequested | ReleaseConfirmed) or event.body.release.code != code:
                continue
            record = event.body.release
            mine = record.principal == request.caller.principal and record.home == str(request.address)
            # The newest of that code: if it is not the one that was asked, it was used.
            if isinstance(event.body, ReleaseConfirmed) or not mine or claim.now >= record.expires_at:
                break
            at = claim.state.generation_seq + record.source - 1
            for source in await self.sessions.events_at(claim.sid, (at,)):
                if isinstance(source.body, AgentMessage | UserMessage):
                    return record, _Source(source.body.text, source.label, record.source, at)
            break
        raise NotFoundError

    async def _meant(self, request: CommandRequest, recipient: str) -> tuple[Address, str]:
        """Return the place that a name leads to now, and the name's meaning.

        Raises UnknownRecipientError: there is not one that the caller may know of.
        """
        document = self.gate.document
        address = recipients.find(document, await request.standing(None), recipient)
        return address, recipients.meaning(document, address)

    async def _source(self, request: CommandRequest, state: SessionState, which: str) -> "_Source":
        """Return the text that is meant: its number as `/history` shows it, or the agent's last answer.

        Raises NotFoundError: there is none, or the caller, or this address, is not cleared for it.
        """
        async for event in backwards(self.sessions, state):
            if not isinstance(event.body, AgentMessage | UserMessage) or event.visibility is not Visibility.USER:
                continue
            number = place(event, state)
            if isinstance(event.body, AgentMessage) if which == "last" else str(number) == which:
                if event.label.flows_to((await request.standing(state)).reader):
                    return _Source(event.body.text, event.label, number, event.seq)
                break
        raise NotFoundError

    async def _offered(self, standing: DecisionContext, source: "_Source", address: Address) -> OutputDecision:
        """Decide on the release of a text to an address."""
        destination = await self.gate.readers.destination(address)
        return self.gate.output.release(standing, destination, source.text, source.label)


@dataclass(frozen=True, slots=True)
class _Source:
    """A text that may be released; `place` is that of its event in its generation, from 1, and `seq` its seq."""

    text: str
    label: Label
    place: int
    seq: int

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The sources of a release of it."""
        return (EventsRef(self.seq, self.seq),)


def _told(shown: Release, text: str) -> str:
    """Return the text as it would be sent, behind a bar on each line so that none of it can stand for ours."""
    lines = "\n".join(f"| {line}" for line in text.split("\n"))
    return (
        f"This text of {len(text)} characters, labelled {shown.label}, would be sent to `{shown.recipient}`, "
        f"which is cleared for {shown.clearance}:\n{lines}\n"
        f"sha256 {shown.digest}\n"
        f"Type `/release confirm {shown.code}` within {_LIFE // 60_000} minutes to send exactly this, once."
    )


def _hides(text: str) -> bool:
    """Say whether a text holds invisible characters, or blanks behind the end of a line."""
    lines = text.split("\n")
    return any(unseen(char) and char != "\t" for line in lines for char in line) or any(
        line != line.rstrip(" \t") for line in lines
    )
