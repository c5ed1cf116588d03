"""Bringing in a session from an export that this installation, or one that the configuration names, has signed.

The labels of such a file count as they stand. Any other file is refused, unless the operator has all of it labelled as
the highest (law `labels_are_never_parsed_from_content`). No label is lowered. A session that is brought in is archived
and stays so: it can be read and exported again, and no turn goes on with it. The same file makes the same session of
the same person, however often it is brought in.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bot.access import labelling, principals
from bot.access.session_ids import SessionIds
from bot.core.errors import RequestError
from bot.gate.gate import Gate
from bot.operations.signing import ExportKey, signed_by
from bot.sessions import exports, refs
from bot.sessions.audit import AuditRow
from bot.sessions.exports import BrokenExport, ImportedEvent, ImportedSession, ReadExport, VerifiedExport
from bot.sessions.log.event_types import EventBody, ItemHeld, SessionImported, ToolResult, UserMessage
from bot.sessions.log.events import NewEvent, Visibility
from bot.sessions.ports.store import Store
from policy.labels import Label

ABOVE = "this export is above the clearance that it may be imported for"
"""The only sentence about a file that the caller may not have, for any content."""


class ImportRefusedError(RequestError):
    """A file cannot be imported; the text says why, and holds nothing of its content."""

    code = "import_refused"


@dataclass(frozen=True, slots=True)
class Imported:
    """The outcome: the session, its label, the number of its entries, and whether it existed before."""

    sid: str
    label: Label
    entries: int
    known: bool


class Importer:
    """Imports sessions.

    `audit_keys` returns the installation's audit keys that are not retired, `session_ids` names its
    sessions. `trusted` are the public keys, by name, of others whose labels count.
    """

    def __init__(
        self,
        gate: Gate,
        store: Store,
        *,
        audit_keys: Callable[[], Sequence[bytes]],
        session_ids: SessionIds,
        trusted: Mapping[str, str],
    ) -> None:
        self._gate = gate
        self._store = store
        self._session_ids = session_ids
        self._own = audit_keys
        self._trusted = trusted

    def signer(self, key: str) -> str | None:
        """Return the name of a public key's owner: empty for this installation, None for an unknown one. It blocks."""
        if key in [ExportKey(one).public for one in self._own()]:
            return ""
        return next((name for name, trusted in self._trusted.items() if trusted == key), None)

    async def bring(self, file: bytes, principal: str, actor: str, clearance: Label, *, at_top: bool) -> Imported:
        """Import a file as an archived session of `principal`.

        `actor` is the person who does it and `clearance` their clearance. With `at_top` everything gets the highest
        label, for any label in the file.

        Raises:
            ImportRefusedError: it is damaged, of an unknown installation, or above one of these people.
            StoreError: the store cannot be used.
        """
        if len(file) > exports.MOST_BYTES:
            raise ImportRefusedError(f"the file is larger than {exports.MOST_BYTES // (1024 * 1024)} MB")
        # A large file is read in a thread: other requests do not wait for it.
        found, read = await asyncio.to_thread(self._read, file, at_top=at_top)
        label = self._gate.document.top if at_top else read.label
        ceiling = labelling.ceiling(self._gate.document, principal, principal)
        home = self._home(principal)
        if ceiling is None or home is None:
            raise ImportRefusedError(f"`{principal}` is no person with an account")
        if not (label.flows_to(ceiling) and label.flows_to(clearance)):
            raise ImportRefusedError(ABOVE, next_step="import it for a person who is cleared for it")
        digest = hashlib.sha256(file.removesuffix(b"\n")).hexdigest()
        # No address begins so.
        sid = await self._session_ids.imported(f"import:{principal}:{'top' if at_top else 'labelled'}", digest)
        told = SessionImported(found.sid, read.header.generation, read.header.made, found.key, at_top)
        new = ImportedSession(
            sid=sid,
            principal=principal,
            home=home,
            creation=label,
            events=(*_events(read, label if at_top else None), ImportedEvent(0, _told(told, actor, label))),
            title=read.header.title and (replace(read.header.title, label=label) if at_top else read.header.title),
            last_turn=read.header.last_turn,
        )
        body = {"export": found.sid, "generation": read.header.generation, "key": found.key, "digest": digest}
        row = AuditRow("imported", actor, {**body, "principal": principal, "label": str(label), "at_top": at_top})
        made = await self._store.sessions.import_session(new, (row,))
        return Imported(sid, label, len(read.entries), known=not made)

    def _read(self, file: bytes, *, at_top: bool) -> tuple[VerifiedExport, ReadExport]:
        """Check and read a file. Raises ImportRefusedError."""
        found = exports.verified(signed_by, file)
        if isinstance(found, BrokenExport):
            step = "copy the file again, or export its session anew"
            raise ImportRefusedError(f"the file is not as it was exported, {found.reason}", next_step=step)
        if self.signer(found.key) is None and not at_top:
            step = "name its key under `imports.keys`, or import it `--as-top`"
            raise ImportRefusedError("the file was signed by an installation that is not known here", next_step=step)
        read = exports.read(file)
        if isinstance(read, BrokenExport):
            raise ImportRefusedError(f"the file cannot be imported, {read.reason}")
        return found, read

    def _home(self, principal: str) -> str | None:
        """Return the first private chat of a person, None for one who has none."""
        person = self._gate.document.principals.get(principal)
        accounts = () if person is None else sorted(person.accounts)
        return next((str(principals.private_chat(account)) for account in accounts), None)


def _events(read: ReadExport, top: Label | None) -> tuple[ImportedEvent, ...]:
    """Return the events of an export as they were, or all of them as high as `top` and let into the context."""
    return tuple(
        ImportedEvent(
            one.entry.ts,
            NewEvent(
                one.entry.actor,
                one.entry.label if top is None else top,
                one.body if top is None else _unproven(one.body, top),
                one.entry.visibility,
                admitted=one.entry.admitted or top is not None,
                turn=one.entry.turn,
                refs=refs.read(one.entry.refs),
            ),
        )
        for one in read.entries
    )


def _unproven(body: EventBody, top: Label) -> EventBody:
    """Return a body without the claims that need a known signer: a lower floor, and endorsed words."""
    match body:
        case ItemHeld():
            return replace(body, floor=top)
        case UserMessage() if body.origin is not None:
            return replace(body, origin=replace(body.origin, typed=(), endorsed=()))
        case ToolResult():
            return replace(body, endorsed=())
        case _:
            return body


def _told(body: SessionImported, actor: str, label: Label) -> NewEvent:
    return NewEvent(actor, label, body, Visibility.USER)
