"""`/classify`: a shared chat's classification, before and after; and blocking one.

A chat is this one, the name of one that is known, or `CHANNEL:CHAT`, `CHANNEL:WORKSPACE:CHAT` by the platform's own
ids. Its classification is bounded by config.yaml and by the caller's clearance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError, label_named
from bot.gate.gate import Gate
from bot.policy_state import ChangeBase, Changing, PolicyReloader
from bot.sessions.audit import AuditRow
from channels.messages import Address, Button
from policy.document.entries import Chat
from policy.document.model import Document
from policy.document.overrides import AccessChange, ChatPlace, Placing
from policy.document.reading import API
from policy.errors import nearest
from policy.labels import PUBLIC, Label, Level
from policy.request import Role

PRIVATE: Final = "This is a private chat, name another."
PROGRAMS: Final = "Programs have no chats."
BY_FILE: Final = "This chat is blocked by config.yaml."
NOT_CLASSIFIED: Final = "Nothing is taken in here until an admin classifies this chat with `/classify`."
"""The only answer in a shared chat that is not classified, to members alone."""

CHAT_FIRST: Final = "the chat comes first"
CUT: Final = "Not {asked}: {by} allows {most} at most."
UNKNOWN_READERS: Final = (
    "Its readers are not known, so nothing above PUBLIC is said there. An admin can vouch for its members: `{command}`."
)
LOWER_READERS: Final = "Because of the readers there now, {label} may be said there at most."
UNANSWERED: Final = (
    "Messages there are labelled {typed}, and its readers may receive {label} at most: the bot will not answer. {step}"
)
CLEAR_OR_CLASSIFY: Final = "Clear its readers, or type `/classify {place} {label}` and then `/reset` there."
CLEAR_OR_INBOUND: Final = "Clear its readers, or lower its `inbound` in config.yaml."
INBOUND: Final = "Lower its `inbound` in config.yaml."
"""The step where the file labels messages above the classification, so that no clearance of readers helps."""

UNKNOWN_AND_UNANSWERED: Final = (
    "Its readers are not known, and messages there are labelled {typed}: the bot will not answer. "
    "An admin can vouch for its members: `{command}`."
)

_VERBS: Final = frozenset({"vouch", "unvouch", "none"})


@dataclass(frozen=True, slots=True)
class ChatCommands:
    """Classify a shared chat, or block it."""

    gate: Gate
    reloader: PolicyReloader

    async def classify(self, request: CommandRequest, argument: str) -> Reply:
        """Show a chat's classification, or change it."""
        match argument.split():
            case []:
                return await self._shown(await self._place(request, ""))
            case [word] if _says(word):
                return await self._classify(request, "", word)
            case [chat]:
                return await self._shown(await self._place(request, chat))
            case [word, chat] if _says(word) and not _says(chat) and word not in self.gate.document.chats:
                raise UsageError(CHAT_FIRST)
            case [chat, word]:
                return await self._classify(request, chat, word)
            case _:
                raise UsageError("")

    async def blocked(self, request: CommandRequest, chat: str, *, now: bool) -> Reply:
        """Block a chat, the one at hand if none is named, or take the block away."""
        place = await self._place(request, chat)

        def made(known: ChangeBase) -> Changing:
            file = known.file.chat(place.channel, place.workspace, place.chat)
            if not now and file is not None and file.blocked:
                raise CommandError(BY_FILE)
            before = known.overrides.places.get(place, Placing())
            return self._changing(request, known, place, replace(before, blocked=now))

        return await self._changed(place, made)

    async def _classify(self, request: CommandRequest, chat: str, word: str) -> Reply:
        place = await self._place(request, chat)
        label = None if word in _VERBS else label_named(self.gate.document, word)
        if label is not None and not label.flows_to(request.caller.clearance):
            raise CommandError(f"you are cleared for {request.caller.clearance}, and can classify no higher")

        def made(known: ChangeBase) -> Changing:
            before = known.overrides.places.get(place, Placing())
            if word == "none":
                # A block is taken away by `/allow` alone.
                return self._changing(request, known, place, Placing(blocked=before.blocked))
            if label is not None:
                return self._changing(request, known, place, replace(before, classification=label))
            there = known.document(AccessChange()).chat(place.channel, place.workspace, place.chat)
            if there is None:
                raise CommandError("this chat is not classified, give it a level first")
            return self._changing(request, known, place, replace(before, vouched=word == "vouch"))

        reply = await self._changed(place, made)
        cut = "" if label is None else self._cut(place, label)
        return replace(reply, text=f"{reply.text}{cut}")

    def _cut(self, place: ChatPlace, label: Label) -> str:
        """Return the line that tells why a chat's classification is lower than requested, empty if it is not."""
        document = self.gate.document
        chat, most = _chat(document, place), document.channel(place.channel).classification
        if chat is None or label.flows_to(chat.classification):
            return ""
        by = "config.yaml" if label.meet(most) != chat.classification else f"the channel `{place.channel}`"
        return f"\n{CUT.format(asked=label, by=by, most=chat.classification)}"

    async def _changed(self, place: ChatPlace, made: Callable[[ChangeBase], Changing]) -> Reply:
        before = _described(_chat(self.gate.document, place))
        await self.reloader.change(made)
        same = before == _described(_chat(self.gate.document, place))
        return await self._told(
            place, f"Nothing changed: chat {place} is" if same else f"Chat {place} was {before}, and is"
        )

    def _changing(self, request: CommandRequest, known: ChangeBase, place: ChatPlace, placing: Placing) -> Changing:
        change = AccessChange(places={place: None if placing == Placing() else placing})
        before, after = known.document(AccessChange()), known.document(change)
        body = {
            "chat": str(place),
            "before": _described(_chat(before, place)),
            "after": _described(_chat(after, place)),
            "address": str(request.address),
        }
        return Changing(change, (AuditRow("classify", request.caller.principal, {**body}),))

    async def _shown(self, place: ChatPlace) -> Reply:
        return await self._told(place, f"Chat {place} is")

    async def _told(self, place: ChatPlace, beginning: str) -> Reply:
        """Tell a chat's classification, and, if its readers lower it now, by how much and the remedy."""
        document = self.gate.document
        chat, address = _chat(document, place), Address(place.channel, place.chat, place.workspace)
        text = f"{beginning} {_described(chat)}."
        audience = await self.gate.readers.audience(address)
        if chat is None or chat.blocked or not audience.shared:
            return Reply(text)
        clearance = labelling.destination(document, address, audience).clearance
        label = clearance or PUBLIC
        typed = labelling.inbound(document, address, Role.MEMBER, authored=True, shared=True)
        answered = typed.flows_to(label)
        if chat.classification.flows_to(label) and answered:
            return Reply(text)
        if clearance is None and not chat.members_vouched:
            vouch = Button("Vouch for its members", f"/classify {place} vouch")
            told = UNKNOWN_READERS if answered else UNKNOWN_AND_UNANSWERED
            return Reply(f"{text}\n{told.format(command=vouch.command, typed=typed)}", buttons=(vouch,))
        if answered:
            return Reply(f"{text}\n{LOWER_READERS.format(label=label)}")
        step = _step(chat, typed).format(place=place, label=label)
        return Reply(f"{text}\n{UNANSWERED.format(typed=typed, label=label, step=step)}")

    async def _place(self, request: CommandRequest, chat: str) -> ChatPlace:
        """Return the shared chat that is meant.

        Raises CommandError: it is a private one, or of no channel there is.
        """
        if not chat:
            here = request.address
            if not await request.in_shared_chat():
                raise CommandError(PRIVATE)
            return ChatPlace(here.channel, here.workspace, here.chat)
        document = self.gate.document
        known = document.chats.get(chat)
        if known is not None:
            return ChatPlace(known.channel, known.workspace, known.chat)
        match chat.split(":"):
            case [channel, name] if name:
                place = ChatPlace(channel, "", name)
            case [channel, workspace, name] if name:
                place = ChatPlace(channel, workspace, name)
            case _:
                raise CommandError(f"unknown chat `{chat}`{nearest(chat, document.chats)}")
        if place.channel not in document.channels:
            raise CommandError(f"unknown channel `{place.channel}`{nearest(place.channel, document.channels)}")
        if place.channel == API:
            raise CommandError(PROGRAMS)
        return place


def _chat(document: Document, place: ChatPlace) -> Chat | None:
    return document.chat(place.channel, place.workspace, place.chat)


def _described(chat: Chat | None) -> str:
    if chat is None:
        return "unclassified"
    if chat.blocked:
        return "blocked"
    vouched = ", its members vouched for" if chat.members_vouched else ""
    return f"classified {chat.classification}{vouched}"


def _step(chat: Chat, typed: Label) -> str:
    """Return the step that lets the bot answer; `/classify` does not change an `inbound` of the file."""
    if chat.inbound is None:
        return CLEAR_OR_CLASSIFY
    return CLEAR_OR_INBOUND if typed.flows_to(chat.classification) else INBOUND


def _says(word: str) -> bool:
    """Say whether a word is a classification, and not the name of a chat."""
    return word in _VERBS or any(word.startswith(level.name) for level in Level)
