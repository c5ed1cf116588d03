"""Reactions to people joining a shared chat: an admin vouched for other people than the present readers."""

from dataclasses import replace

from bot.access import labelling
from bot.gate.gate import Gate
from bot.ingress.new_chats import NewChats
from bot.policy_state import ChangeBase, Changing, PolicyReloader
from bot.sessions.audit import AuditRow
from bot.sessions.ports.people import AuditStore
from channels.messages import Membership, Moved
from channels.port import Reader
from policy.document.overrides import AccessChange, ChatPlace, Placing


class Memberships:
    """Takes back an admin's vouching for a chat when a person joins who is not cleared for it.

    `new_chats` tells admins of that, and of chats that the bot itself joins.
    """

    def __init__(self, gate: Gate, reloader: PolicyReloader, audit: AuditStore, new_chats: NewChats) -> None:
        self._gate = gate
        self._reloader = reloader
        self._audit = audit
        self._new_chats = new_chats

    async def heard(self, event: Membership | Moved) -> None:
        """Note that someone joined or left, or that a chat has another id. Raises StoreError: it was not kept."""
        if isinstance(event, Moved):
            # Its adapter still uses the old name, so nothing else changes here. Where one does not, the new id is a
            # chat without a classification: an id does not prove who reads there.
            row = AuditRow("moved", "memberships", {"from": str(event.address), "to": str(event.to)})
            await self._audit.append_once(row, f"moved/{event.address}/{event.to}")
        else:
            await self._joined(event)
            if event.own and event.joined:
                await self._new_chats.added(event)

    async def _joined(self, membership: Membership) -> None:
        if not membership.joined or not self._vouched(membership):
            return
        # Another process may have had the same event, and took the word back.
        await self._reloader.open()
        if not self._vouched(membership):
            return
        there = membership.address
        place = ChatPlace(there.channel, there.workspace, there.chat)
        row = AuditRow("classify", "memberships", {"chat": str(place), "vouched": False, "joined": membership.account})

        def made(known: ChangeBase) -> Changing:
            before = known.overrides.places.get(place, Placing())
            return Changing(AccessChange(places={place: replace(before, vouched=False)}), (row,))

        await self._reloader.change(made)
        await self._new_chats.unvouched(membership)

    def _vouched(self, membership: Membership) -> bool:
        """Say whether an admin's word for the members of a chat holds, though an account is not cleared for it."""
        there, document = membership.address, self._gate.document
        chat = document.chat(there.channel, there.workspace, there.chat)
        if chat is None or not chat.members_vouched:
            return False
        return not chat.classification.flows_to(labelling.reader(document, Reader(membership.account)))
