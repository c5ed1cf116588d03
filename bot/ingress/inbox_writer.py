"""Messages as they come in: each becomes an item in the inbox of its session, or its sender is told why not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling
from bot.access.authorize import Caller
from bot.access.session_ids import SessionIds
from bot.commands.admin.classify import NOT_CLASSIFIED
from bot.core.errors import ArchivedError, BusyError, DeletedError, ForeignError, RequestError
from bot.gate.gate import Gate
from bot.pinned_agents import PinnedAgents
from bot.sessions.inbox import Accepted, Metadata, NewItem, QueueMode
from bot.sessions.messages import SessionMessage
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from channels.messages import Inbound
from policy.labels import PUBLIC, Label

IS_A_TASK: Final = "a background session takes no messages of programs"

RESTS: Final = "This conversation rests. Your message waits until an admin types `/resume`."

_TRIES: Final = 4
"""How often the session of a chat is looked for, where people end it again and again meanwhile."""


@dataclass(frozen=True, slots=True)
class NewSession:
    """What a program begins a session with, beside its first message.

    `created_with` is the digest of all that, which decides whether the same is begun again. `agent` is what the session
    pins, `metadata` what its program keeps with it, as JSON, empty for nothing. `heard` is the label of all that was
    told to the model for which the program speaks, PUBLIC for none: it joins that of the message.
    """

    created_with: str
    agent: str
    mode: QueueMode
    metadata: str = ""
    heard: Label = PUBLIC


@dataclass(frozen=True, slots=True)
class Steer:
    """Which session of a program a message is for, and how that takes it from now on, None for as it did.

    `reader` has to know of the session. `heard` is as of `NewSession`.
    """

    state: SessionState
    mode: QueueMode | None
    reader: Label
    heard: Label = PUBLIC


class InboxWriter:
    """Writes messages into inboxes.

    `interrupt` stops a session's turn of an id at once if it runs in this process. `longest` is the most characters a
    message may have, with what is quoted in it and how its files are described. `agents` tells what a new session pins.
    """

    def __init__(
        self,
        store: SessionStore,
        gate: Gate,
        session_ids: SessionIds,
        *,
        interrupt: Callable[[str, str], None],
        longest: int,
        agents: PinnedAgents,
    ) -> None:
        self._store = store
        self._gate = gate
        self._session_ids = session_ids
        self._interrupt = interrupt
        self._longest = longest
        self._agents = agents

    async def put(self, inbound: Inbound, caller: Caller, owner: str, *, unless_asked: bool = False) -> tuple[str, str]:
        """Put a message into the inbox of the session of `owner` at its address.

        With `unless_asked` it is left out where an agent may have asked its sender something, but not one that is in an
        inbox already: a platform that tells a message again answers nothing with it.

        Returns the session's id and the sentence that its sender is told, empty where it is in the inbox and goes on.
        Raises AskedError: it was left out. StoreError.
        """
        sid = self._session_ids.likely(inbound.address, owner)
        ended = self._session_ids.ended(inbound.address, owner)
        for _ in range(_TRIES):
            for before in ended:
                # A platform tells again what it was not seen to have told: that is no input of the next session.
                if await self._store.outcome(before, inbound.identity) is not None:
                    return before, ""
            try:
                return sid, await self._accept(inbound, caller, sid, owner, unless_asked=unless_asked)
            except (ForeignError, ArchivedError, DeletedError):
                # Another person's, or one that ended: the chat goes on in the next.
                sid, ended = await self._session_ids.found(inbound.address, owner)
        return sid, str(BusyError())

    async def begin(self, inbound: Inbound, caller: Caller, new: NewSession) -> tuple[str, Accepted]:
        """Begin the session of a program at an address with its first message; return its id and the receipt.

        One that it began there with the same is that session, whatever became of it, unless it was deleted.

        Raises:
            DedupeConflictError: it began one there with something else.
            RequestError: the message cannot be taken in.
            StoreError: it could not be kept.
        """
        if problem := self._problem(inbound):
            raise RequestError(problem)
        owner = caller.principal
        sid = self._session_ids.likely(inbound.address, owner)
        for _ in range(_TRIES):
            item = self._item(inbound, caller, sid, owner, heard=new.heard)
            kept = Metadata(new.metadata, item.label) if new.metadata else None
            item = replace(item, agent=new.agent, created_with=new.created_with, metadata=kept, mode=new.mode)
            try:
                return sid, await self._kept(item)
            except DeletedError:
                sid = await self._session_ids.undeleted(inbound.address, owner)
        raise BusyError

    async def steer(self, inbound: Inbound, caller: Caller, told: Steer) -> Accepted:
        """Put a message of a program into the inbox of a session of its own.

        Raises:
            NotFoundError: it may not know of the session any more.
            ArchivedError: nothing more is taken in there.
            RequestError: the message cannot be taken in.
            StoreError: it could not be kept.
        """
        if problem := self._problem(inbound):
            raise RequestError(problem)
        if told.state.lineage is not None:
            raise RequestError(IS_A_TASK, next_step="send it to the session that gave the task")
        item = self._item(inbound, caller, told.state.sid, caller.principal, heard=told.heard)
        return await self._kept(replace(item, home=told.state.home, mode=told.mode, reader=told.reader))

    def _problem(self, inbound: Inbound) -> str:
        """Return why a message is not taken in at all, empty if it may be."""
        described = sum(len(file.handle) + len(file.name) + len(file.media_type) for file in inbound.files)
        if len(inbound.text) + sum(map(len, inbound.quoted)) + described > self._longest:
            return f"a message has at most {self._longest} characters"
        return ""

    async def _kept(self, item: NewItem, *, unless_asked: bool = False) -> Accepted:
        accepted = await self._store.accept(item, unless_asked=unless_asked)
        if accepted.stopping:
            # A turn in another process learns of it when it next writes or renews its lease.
            self._interrupt(item.sid, accepted.stopping)
        return accepted

    async def _accept(self, inbound: Inbound, caller: Caller, sid: str, owner: str, *, unless_asked: bool) -> str:
        """Put a message into the inbox of a session; return why it is not, empty if it is."""
        if problem := self._problem(inbound):
            return problem
        if not inbound.private and labelling.classification(self._gate.document, inbound.address) is None:
            return NOT_CLASSIFIED
        try:
            item = self._item(inbound, caller, sid, owner)
            item = replace(item, agent=await self._agents.pin(owner))
            accepted = await self._kept(item, unless_asked=unless_asked)
        except (ForeignError, ArchivedError, DeletedError):
            raise
        except RequestError as error:
            return str(error)
        return RESTS if accepted.rests and not accepted.duplicate else ""

    def _item(self, inbound: Inbound, caller: Caller, sid: str, owner: str, *, heard: Label = PUBLIC) -> NewItem:
        message = SessionMessage(
            inbound.text, inbound.account, quoted=inbound.quoted, files=inbound.files, opens=inbound.opens
        )
        label = labelling.inbound(
            self._gate.document,
            inbound.address,
            caller.role,
            authored=inbound.authored and not inbound.quoted and not inbound.files,
            shared=not inbound.private,
        )
        return NewItem(
            sid=sid,
            dedupe=inbound.identity,
            sender=caller.principal,
            label=label.join(heard),
            body=message,
            home=str(inbound.address),
            principal=owner,
        )
