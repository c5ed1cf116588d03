"""Messages on their way in: each becomes an item in the inbox of its session, or its sender is told why not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.access import labelling
from bot.access.authorize import Caller
from bot.access.session_ids import SessionIds
from bot.commands.admin.classify import NOT_CLASSIFIED
from bot.core.errors import ArchivedError, BusyError, DeletedError, ForeignError, RequestError, SealedError
from bot.gate.gate import Gate
from bot.pinned_agents import PinnedAgents
from bot.sessions.inbox import TEXT_PART, Accepted, Metadata, NewItem, QueueMode
from bot.sessions.messages import SessionMessage
from bot.sessions.models import SessionState
from bot.sessions.ports.sessions import SessionStore
from channels.messages import Inbound
from policy.labels import PUBLIC, Label

IS_A_TASK: Final = "a background session takes no messages of programs"

RESTS: Final = "This conversation rests. Your message waits until an admin types `/resume`."

_TRIES: Final = 4
"""How often the session of a chat is looked up, in case people end it again and again meanwhile."""


@dataclass(frozen=True, slots=True)
class NewSession:
    """The values that a program creates a session with, besides its first message.

    Args:
        created_with: The digest of all these values, which decides whether a repeated creation is the same.
        agent: The pin of its agent.
        mode: Its queue mode.
        metadata: The metadata that its program keeps with it, as JSON, empty for none.
        heard: The label of everything told to the model that the program speaks for, PUBLIC for none: it joins the
            label of the message.
    """

    created_with: str
    agent: str
    mode: QueueMode
    metadata: str = ""
    heard: Label = PUBLIC


@dataclass(frozen=True, slots=True)
class Steer:
    """A message of a program for one of its sessions.

    Args:
        state: The session's record.
        mode: The queue mode from now on, None for no change.
        reader: The clearance at which the session must be visible.
        heard: As in `NewSession`.
    """

    state: SessionState
    mode: QueueMode | None
    reader: Label
    heard: Label = PUBLIC


class InboxWriter:
    """Writes messages into inboxes.

    `interrupt` takes the ids of a session and a turn, and stops that turn at once if it runs in this process. `longest`
    is the most characters of a message, with its quotes and the descriptions of its files. `agents` gives the pin of a
    new session.
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

        With `unless_asked` a new message is left out where an agent may have asked its sender something. A redelivered
        message that is in an inbox already is not left out: it answers no question.

        Returns:
            The session's id and the sentence for its sender, empty where the message is in the inbox and nothing is to
            be said.

        Raises:
            AskedError: The message was left out.
            StoreError: It could not be kept.
        """
        sid = await self._session_ids.likely(inbound.address, owner)
        ended = self._session_ids.ended(inbound.address, owner)
        for _ in range(_TRIES):
            for before in ended:
                # A platform redelivers messages whose delivery it did not see confirmed: those are no inputs of the
                # next session.
                if await self._store.outcome(before, inbound.identity) is not None:
                    return before, ""
            try:
                return sid, await self._accept(inbound, caller, sid, owner, unless_asked=unless_asked)
            except (ForeignError, ArchivedError, DeletedError):
                # Another person's session, or one that ended: the chat continues in the next.
                sid, ended = await self._session_ids.found(inbound.address, owner)
            except SealedError:
                sid = await self._session_ids.unsealed(sid, inbound.address, owner)
        return sid, str(BusyError())

    async def begin(self, inbound: Inbound, caller: Caller, new: NewSession) -> tuple[str, Accepted]:
        """Create the session of a program at an address with its first message; return its id and the receipt.

        If the program created one there with the same values, it is that session, in any status but deleted.

        Raises:
            DedupeConflictError: It created one there with other values.
            RequestError: The message is not acceptable.
            StoreError: It could not be kept.
        """
        if problem := self._problem(inbound):
            raise RequestError(problem)
        owner = caller.principal
        sid = await self._session_ids.likely(inbound.address, owner)
        for _ in range(_TRIES):
            item = self._item(inbound, caller, sid, owner, heard=new.heard)
            kept = Metadata(new.metadata, item.label) if new.metadata else None
            item = replace(item, agent=new.agent, created_with=new.created_with, metadata=kept, mode=new.mode)
            try:
                return sid, await self._kept(item)
            except DeletedError:
                sid = await self._session_ids.undeleted(inbound.address, owner)
            except SealedError:
                sid = await self._session_ids.unsealed(sid, inbound.address, owner)
        raise BusyError

    async def steer(self, inbound: Inbound, caller: Caller, told: Steer) -> Accepted:
        """Put a message of a program into the inbox of a session of its own.

        Raises:
            NotFoundError: The program may not know of the session any more.
            ArchivedError: The session is archived.
            RequestError: The message is not acceptable.
            StoreError: It could not be kept.
        """
        if problem := self._problem(inbound):
            raise RequestError(problem)
        if told.state.lineage is not None:
            raise RequestError(IS_A_TASK, next_step="send it to the session that gave the task")
        item = self._item(inbound, caller, told.state.sid, caller.principal, heard=told.heard)
        return await self._kept(replace(item, home=told.state.home, mode=told.mode, reader=told.reader))

    def _problem(self, inbound: Inbound) -> str:
        """Return why a message is not acceptable, empty if it is."""
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
        """Put a message into the inbox of a session; return why it was not, empty if it was."""
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
            part=_part(inbound),
        )


def _part(inbound: Inbound) -> str:
    """Return the message that an input may be a part of; an album's name tells whether its sender forwarded it."""
    if inbound.part is None or inbound.bot:
        return ""
    if inbound.part.album:
        return f"album/{inbound.authored:d}/{inbound.part.album}"
    return TEXT_PART if inbound.part.more and inbound.authored else ""
