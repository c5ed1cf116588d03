"""Commands that let people in and keep them out: `/pair`, `/allow` and `/block`.

Each is one change in the store with its row in the audit, bounded by config.yaml. No person acts on themselves or on a
person of the same or a higher role. Only the person themselves links an account to a person, with a code that was given
to the other account. An owner's account is linked at the console alone, where the operating system identifies its user.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from bot.access import principals
from bot.access.authorize import at_least
from bot.access.pairing import Pairing
from bot.commands.admin.classify import ChatCommands
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError, label_named
from bot.commands.inbox.waiting import WaitingEntry
from bot.delivery import time_left
from bot.gate.gate import Gate
from bot.policy_state import ChangeBase, Changing, PolicyReloader
from bot.sessions.approvals import DENIED_MS, Answered
from bot.sessions.audit import AuditRow
from bot.sessions.ports.people import AccessStore
from policy.document import reading
from policy.document.entries import Principal
from policy.document.groups import ended
from policy.document.model import Document
from policy.document.overrides import AccessChange, Overrides, Person
from policy.document.programs import is_program, program_name
from policy.errors import nearest
from policy.labels import PUBLIC
from policy.request import Role

WRONG_CODE: Final = "Invalid or expired code."
NOT_PAIRED: Final = "Nobody is let in while `paired` under `policy` in config.yaml says nothing."
IN_PRIVATE: Final = "Write this in a private chat."
IN_THE_FILE: Final = "This is done in config.yaml."
OF_A_PROGRAM: Final = "`{account}` is a program's account, which `lockgate token create` makes, and no person's"
MOVE_THE_END: Final = "Only `until` in config.yaml can give it another end."
AT_THE_CONSOLE: Final = "An owner links an account at the console alone."

_MINUTE: Final = 60_000


@dataclass(frozen=True, slots=True)
class AccessCommands:
    """Let people in, keep them out, and set their clearance."""

    access: AccessStore
    gate: Gate
    reloader: PolicyReloader
    pairing: Pairing
    chats: ChatCommands

    async def pair(self, request: CommandRequest, argument: str) -> Reply:
        """Answer strangers' requests, link an account of one's own, or send a person away again."""
        if await request.in_shared_chat():
            raise CommandError(IN_PRIVATE)
        match argument.split():
            case [] | ["list"]:
                return await self._list(request)
            case ["approve", code]:
                return await self._approve(request, code, "")
            case ["approve", code, name]:
                return await self._approve(request, code, name)
            case ["deny", code]:
                return await self._deny(request, code)
            case ["revoke", name]:
                return await self._revoke(request, name)
            case ["link", *words]:
                return await self._linking(request, words)
            case _:
                raise UsageError("")

    async def block(self, request: CommandRequest, argument: str) -> Reply:
        """Let an account in nowhere, or do nothing in a chat."""
        match argument.split():
            case [] | ["chat"]:
                return await self.chats.blocked(request, "", now=True)
            case ["chat", chat]:
                return await self.chats.blocked(request, chat, now=True)
            case [account]:
                return await self._block(request, account)
            case _:
                raise UsageError("")

    async def allow(self, request: CommandRequest, argument: str) -> Reply:
        """Take a block away, let an account in without a code, or set a person's clearance."""
        match argument.split():
            case [] | ["chat"]:
                return await self.chats.blocked(request, "", now=False)
            case ["chat", chat]:
                return await self.chats.blocked(request, chat, now=False)
            case [account] if ":" in account:
                return await self._allow(request, account, "")
            case [account, name] if ":" in account:
                return await self._allow(request, account, name)
            case [name, label]:
                return await self._clear(request, name, label)
            case _:
                raise UsageError("")

    async def waiting(self, request: CommandRequest) -> tuple[WaitingEntry, ...]:
        """Return the strangers who ask an admin to be let in, in a private chat."""
        if not at_least(request.caller.role, Role.ADMIN) or await request.in_shared_chat():
            return ()
        return tuple(
            WaitingEntry(
                one.asked_at,
                f"`{one.account}` asks to be let in, {time_left.spanned(max(0, one.expires_at - request.now))} left: "
                "`/pair approve CODE` with their code.",
                PUBLIC,
            )
            for one in await self.access.pairings()
        )

    async def _list(self, request: CommandRequest) -> Reply:
        _, overrides = await self.access.overrides()
        waiting = [
            f"`{one.account}` asks, {math.ceil((one.expires_at - request.now) / _MINUTE)} minutes left"
            for one in await self.access.pairings()
        ]
        told = [_described(self.gate.document, name) for name in sorted(_let_in_so_far(overrides))]
        return Reply("\n".join((*waiting, *told)) or "Nobody asks, and nobody was let in.")

    async def _approve(self, request: CommandRequest, code: str, name: str) -> Reply:
        account, digest = await self._asked(request, code)

        def made(known: ChangeBase) -> Changing:
            return replace(self._let_in(request, known, account, name), answered=Answered(account, digest))

        await self.reloader.change(made)
        return Reply(_whose(self.gate.document, account))

    async def _deny(self, request: CommandRequest, code: str) -> Reply:
        account, digest = await self._asked(request, code)
        changing = Changing(
            AccessChange(), (self._row(request, "denied", account=account),), Answered(account, digest, keep=DENIED_MS)
        )
        await self.reloader.change(lambda _: changing)
        return Reply(f"`{account}` is not let in, and gets no other code for a day.")

    async def _revoke(self, request: CommandRequest, name: str) -> Reply:
        def made(known: ChangeBase) -> Changing:
            there = _let_in_so_far(known.overrides)
            before = there.get(name)
            if before is None:
                raise CommandError(f"nobody named `{name}` was let in here{nearest(name, there)}")
            self._not_above(request, self.gate.document, name)
            # A person of the file keeps the lowered role. Any other name stays taken: conversations belong to
            # it.
            named = name in known.file.principals
            left = replace(before, accounts=frozenset()) if named else replace(before, role=Role.STRANGER)
            row = self._row(request, "revoked", person=name, accounts=list[JsonValue](sorted(before.accounts)))
            return Changing(AccessChange(people={name: left}), (row,))

        await self.reloader.change(made)
        return Reply(_described(self.gate.document, name))

    async def _linking(self, request: CommandRequest, words: list[str]) -> Reply:
        """Show whose account a code is, and link it once confirmed: a code may be handed on to trick somebody."""
        match words:
            case [code]:
                account, _ = await self._asked(request, code)
                return Reply(
                    f"`{account}` would act as you here. If that account is yours, type `/pair link {code} confirm`."
                )
            case [code, "confirm"]:
                return await self._link(request, code)
            case _:
                raise UsageError("")

    async def _link(self, request: CommandRequest, code: str) -> Reply:
        """Add an account to the caller's own, proved by the code it was given."""
        principal = request.caller.principal
        if request.caller.role is Role.OWNER and request.address.channel != principals.CONSOLE:
            raise CommandError(AT_THE_CONSOLE)
        account, digest = await self._asked(request, code)

        def made(known: ChangeBase) -> Changing:
            former = _former(known, account)
            if former:
                raise CommandError(f"{account} was `{former}` here, and cannot be somebody else")
            before = known.overrides.people.get(principal, Person())
            change = AccessChange(people={principal: replace(before, accounts=before.accounts | {account})})
            _must_belong(known, change, account, principal)
            row = self._row(request, "linked", person=principal, account=account)
            return Changing(change, (row,), Answered(account, digest))

        await self.reloader.change(made)
        return Reply(_described(self.gate.document, principal))

    async def _block(self, request: CommandRequest, account: str) -> Reply:
        self._account(account)

        def made(_: ChangeBase) -> Changing:
            owner = next((name for name, who in self.gate.document.principals.items() if account in who.accounts), None)
            if owner is not None:
                self._not_above(request, self.gate.document, owner)
            return Changing(AccessChange(accounts={account: True}), (self._row(request, "blocked", account=account),))

        await self.reloader.change(made)
        return Reply(f"`{account}` is blocked.")

    async def _allow(self, request: CommandRequest, account: str, name: str) -> Reply:
        self._account(account)

        def made(known: ChangeBase) -> Changing:
            if account in known.file.blocked:
                raise CommandError(f"`{account}` is blocked in config.yaml")
            lifted = AccessChange(accounts={account: False})
            if not name:
                return Changing(lifted, (self._row(request, "allowed", account=account),))
            let_in = self._let_in(request, known, account, name, unblock=True)
            return replace(let_in, change=replace(let_in.change, accounts=lifted.accounts))

        await self.reloader.change(made)
        return Reply(_whose(self.gate.document, account))

    async def _clear(self, request: CommandRequest, name: str, written: str) -> Reply:
        """Say how much somebody may know, which is never more than the file says."""
        label = label_named(self.gate.document, written)

        def made(known: ChangeBase) -> Changing:
            people = known.document(AccessChange()).principals
            if name not in people:
                raise CommandError(f"unknown person `{name}`{nearest(name, people)}")
            self._not_above(request, self.gate.document, name)
            change = AccessChange(people={name: replace(known.overrides.people.get(name, Person()), clearance=label)})
            before, after = people[name].clearance, known.document(change).principals[name].clearance
            row = self._row(request, "cleared", person=name, before=str(before), after=str(after))
            return Changing(change, (row,))

        await self.reloader.change(made)
        document = self.gate.document
        person = document.principals.get(name)
        lower = person is not None and person.clearance != label
        bounded = "\nThe file config.yaml allows no more than that." if lower else ""
        return Reply(f"{_described(document, name)}{bounded}")

    def _let_in(
        self, request: CommandRequest, known: ChangeBase, account: str, name: str, *, unblock: bool = False
    ) -> Changing:
        """Return the change that makes an account somebody new.

        Raises CommandError: nobody can be, the name is taken or none, or the account is somebody's already.
        """
        ceiling = known.file.paired
        if ceiling is None:
            raise CommandError(NOT_PAIRED)
        if account.partition(":")[0] == reading.API:
            raise CommandError(OF_A_PROGRAM.format(account=account))
        former = _former(known, account)
        name = name or former or _name_of(account)
        if former not in {"", name}:
            raise CommandError(f"`{account}` was `{former}` here, choose that name")
        try:
            reading.name(name)
        except ValueError as error:
            raise CommandError(str(error)) from None
        if name in known.file.groups:
            raise CommandError(f"`{name}` is a group in config.yaml, choose another name")
        if name in known.file.principals or (name in known.overrides.people and name != former):
            raise CommandError(f"`{name}` is somebody already, or was, choose another name")
        person = Person(ceiling.role, ceiling.clearance, frozenset({account}))
        change = AccessChange(people={name: person}, accounts={account: False} if unblock else {})
        _must_belong(known, change, account, name)
        return Changing(
            change,
            (
                self._row(
                    request,
                    "let in",
                    person=name,
                    account=account,
                    role=ceiling.role.value,
                    clearance=str(ceiling.clearance),
                ),
            ),
        )

    def _not_above(self, request: CommandRequest, document: Document, name: str) -> None:
        """Refuse a caller who acts on themselves, or on a person of the same or a higher role."""
        person = document.principals.get(name)
        if person is not None and at_least(person.role, request.caller.role):
            where = f"`lockgate token revoke {program_name(name)}` does this." if is_program(name) else IN_THE_FILE
            raise CommandError(f"`{name}` has your role or a higher one here", next_step=where)

    def _account(self, account: str) -> None:
        channel, _, user = account.partition(":")
        channels = self.gate.document.channels
        if not user:
            raise CommandError(f"`{account}` is no account, write one as channel:id")
        if channel not in channels:
            raise CommandError(f"unknown channel `{channel}`{nearest(channel, channels)}")

    async def _asked(self, request: CommandRequest, code: str) -> tuple[str, str]:
        found = await self.pairing.account(request.caller.principal, code)
        if found is None:
            raise CommandError(WRONG_CODE)
        return found

    def _row(self, request: CommandRequest, what: str, **more: JsonValue) -> AuditRow:
        return AuditRow("access", request.caller.principal, {"what": what, **more, "address": str(request.address)})


def _former(known: ChangeBase, account: str) -> str:
    """Return the former person of an account that was sent away, empty for none: its conversations are still theirs."""
    people = known.overrides.people.items()
    return next((name for name, person in people if person.sent_away and account in person.accounts), "")


def _let_in_so_far(overrides: Overrides) -> dict[str, Person]:
    """Return who was let in, or has linked accounts, and was not sent away."""
    return {name: one for name, one in overrides.people.items() if one.accounts and not one.sent_away}


def _must_belong(known: ChangeBase, change: AccessChange, account: str, name: str) -> None:
    """Refuse a change after which the account is not that person's: nobody is let in, it is blocked, or another's."""
    if known.file.paired is None:
        raise CommandError(NOT_PAIRED)
    people = known.file.principals.items()
    gone = next((who for who, one in people if account in one.accounts and ended(one.until, known.now)), None)
    if gone is not None:
        raise CommandError(f"`{account}` is of `{gone}`, whose access ended", next_step=MOVE_THE_END)
    found = known.document(change).principal(account)
    if found is None or found[0] != name:
        raise CommandError(f"`{account}` is blocked, belongs to somebody already, or is of an unknown channel")


def _name_of(account: str) -> str:
    """Return a name for an account, which may be somebody's already."""
    letters = (char if char.isascii() and char.isalnum() else "-" for char in account.lower())
    return "".join(letters)[:64]


def _described(document: Document, name: str) -> str:
    person = document.principals.get(name)
    return f"Nobody here is called `{name}`." if person is None else _described_as(name, person)


def _whose(document: Document, account: str) -> str:
    known = document.principal(account)
    return f"`{account}` is not blocked, and belongs to nobody." if known is None else _described_as(*known)


def _described_as(name: str, person: Principal) -> str:
    return f"`{name}` is {person.role}, cleared for {person.clearance}, as {', '.join(person.accounts)}."
