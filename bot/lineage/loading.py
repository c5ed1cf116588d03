"""Reads records of the store and files of the folders into a map of lineage, as far as a viewer may know of them.

A session is read as a whole, its events before its record: its taint by then decides (law `no_read_up`). Older
generations are shown to the operator alone. Files are read as they are now.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from bot.core.errors import SchemaError
from bot.files import locations
from bot.files.locations import FileLocation, version_of
from bot.files.port import AbsentError, Found, LabelledFiles, UnavailableError, UnusableError
from bot.lineage import facts, names
from bot.lineage.graph import LineageMap
from bot.sessions.deliveries import Delivery
from bot.sessions.log.event_types import AgentMessage, UserMessage
from bot.sessions.log.events import Event, Visibility
from bot.sessions.models import SessionState, Status
from bot.sessions.ports.store import Store
from bot.sessions.refs import EventsRef, FileRef, MemoryRef, Ref, ScheduleRef, SkillRef, WorkflowRef
from policy.document.model import Document
from policy.document.programs import is_program
from policy.errors import LabelTextError
from policy.labels import Label, parse

LARGEST: Final = 16_000_000
"""The largest file, in bytes, whose version is computed."""

MOST_PROJECTS: Final = 100
"""The most workflows of a principal that are read to trace an item forward."""

MOST_KNOWN: Final = 2_000
"""The most memories, and skills, of a principal and label that are read to trace forward, the newest of memories."""

_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class LineageViewer:
    """The viewer of a trace.

    Args:
        reader: The label of the viewer, None for the operator.
        principal: The only principal whose items may be shown, empty for all.
        program: Whether the viewer is a program, which is not shown events that people in a chat do not see, such as a
            withheld answer (`SessionReader.told`).
    """

    reader: Label | None = None
    principal: str = ""
    program: bool = False

    def may_read(self, label: Label) -> bool:
        """Say whether an item of this label may be shown."""
        return self.reader is None or label.flows_to(self.reader)

    def may_know(self, state: SessionState) -> bool:
        """Say whether a session may be known of."""
        return self.of(state.principal) and self.may_read(state.visibility)

    def of(self, principal: str) -> bool:
        """Say whether items of this principal may be shown at all."""
        return self.principal in {"", principal}


class LineageLoader:
    """Fills the map of one viewer; `complete` becomes false if an item they may know of was not or cannot be read."""

    def __init__(
        self, store: Store, files: LabelledFiles, document: Callable[[], Document], viewer: LineageViewer
    ) -> None:
        self.known = LineageMap()
        self.complete = True
        self._store = store
        self._files = files
        self._document = document
        self._viewer = viewer
        self._sessions = dict[str, SessionState | None]()
        self._looked_up = set[tuple[str, str]]()

    async def session(self, sid: str) -> SessionState | None:
        """Read a session and the items that its events name, once; return its record, None if it may not be known of.

        Raises StoreError.
        """
        if sid not in self._sessions:
            self._sessions[sid] = None
            with self._reading():
                self._sessions[sid] = await self._read(sid)
        return self._sessions[sid]

    async def memory(self, principal: str, ids: Iterable[str]) -> None:
        """Read memories of a principal, and those that they correct. Raises StoreError."""
        wanted = self._new(principal, ids) if self._viewer.of(principal) else []
        while wanted:
            behind = list[str]()
            with self._reading():
                labels = self._labels(await self._store.memories.versions(principal))
                for memory in await self._store.memories.memories(principal, dict.fromkeys(labels, wanted)):
                    self.known.add(facts.memory_fact(memory))
                    behind += [memory.corrects] if memory.corrects else []
            wanted = self._new(principal, behind)

    async def skill(self, principal: str, ids: Iterable[str]) -> None:
        """Read skills of a principal, and the skills and memories they were made from. Raises StoreError."""
        wanted = self._new(principal, ids) if self._viewer.of(principal) else []
        while wanted:
            behind, memories = list[str](), list[str]()
            with self._reading():
                labels = self._labels(await self._store.skills.versions(principal))
                for found in await self._store.skills.skills(principal, dict.fromkeys(labels, wanted)):
                    skill = found if self._viewer.reader is None else found.known_to(self._viewer.reader)
                    if skill is not None:
                        self.known.add(facts.skill_fact(skill))
                        memories += [name for version in skill.versions for name in version.sources]
                        behind += [skill.derived_from] if skill.derived_from else []
            await self.memory(principal, memories)
            wanted = self._new(principal, behind)

    async def every_known(self, principal: str) -> None:
        """Read all memories and skills of a principal: no session need name those that came from an item.

        Raises StoreError.
        """
        if not self._new("every known", (principal,)) or not self._viewer.of(principal):
            return
        memories, skills, most = self._store.memories, self._store.skills, MOST_KNOWN
        with self._reading():
            for label in self._labels(await memories.versions(principal)):
                page = await memories.page(principal, label, 0, most)
                self.complete = self.complete and not page.more
                await self.memory(principal, [memory.id for memory in page.changed])
        with self._reading():
            for label in self._labels(await skills.versions(principal)):
                found = await skills.changes(principal, label, 0, most)
                self.complete = self.complete and not found.more
                await self.skill(principal, [skill.id for skill in found.changed])

    async def schedules(self, ids: Iterable[str]) -> None:
        """Read schedules. Raises StoreError."""
        for name in self._new("", ids):
            with self._reading():
                schedule = await self._store.schedules.schedule(name) if name else None
                if schedule and self._viewer.of(schedule.principal) and self._viewer.may_read(schedule.label):
                    self.known.add(facts.schedule_fact(schedule))

    async def workflows(self, principal: str, projects: Iterable[str]) -> None:
        """Read workflows of a principal, as far as they may be known of. Raises StoreError."""
        for project in self._new(f"workflows {principal}", projects if self._viewer.of(principal) else ()):
            with self._reading():
                events = await self._store.workflows.log(principal, project, self._viewer.may_read)
                if events:
                    self.known.add(facts.workflow_fact(project, principal, events))

    async def workflow_states(self, refs: Iterable[Ref]) -> None:
        """Read the states of workflows that references name, as far as they may be known of. Raises StoreError."""
        for ref in refs:
            if isinstance(ref, WorkflowRef) and self._new("workflow states", (names.workflow_state(ref),)):
                await self._workflow_state(ref)

    async def _workflow_state(self, ref: WorkflowRef) -> None:
        if not self._viewer.of(ref.principal):
            return
        try:
            label, upto = parse(ref.label), int(ref.upto)
        except (LabelTextError, ValueError):
            # The references beside a file were damaged.
            self.complete = False
            return
        events = await self._store.workflows.log(ref.principal, ref.project, lambda one: one.within(label))
        known = [event for event in events[:upto] if self._viewer.may_read(event.label)]
        self.known.add(facts.workflow_state_fact(ref, known))

    async def every_workflow(self, principal: str) -> None:
        """Read the workflows of a principal that changed last. Raises StoreError."""
        if self._new("every workflow", (principal,)) and self._viewer.of(principal):
            with self._reading():
                found = await self._store.workflows.projects(principal, self._viewer.may_read, MOST_PROJECTS)
                await self.workflows(principal, found)

    async def file(self, path: str, sid: str = "", generation: int = 1) -> None:
        """Read all files of a path, as they are now."""
        place = locations.named(path, sid, generation, self._document())
        if place is None or not self._new(f"{sid}/{generation}", (path,)):
            return
        reader = self._document().top if self._viewer.reader is None else self._viewer.reader
        for found, version, refs in await asyncio.to_thread(self._versions, place, reader):
            await self.workflow_states(refs)
            came = tuple(facts.sources(refs, sid))
            self.known.add(facts.file_fact(path, sid, version, found.label, came=came))

    def _versions(self, place: FileLocation, reader: Label) -> list[tuple[Found, str, tuple[Ref, ...]]]:
        """Return the files of a path that may be known of, with their versions and sources."""
        try:
            after = self._files.every(place, reader)
            while True:
                every, versions = after, [*self._read_files(after)]
                # Another process may write between: label, version and sources are to be of one moment.
                after = self._files.every(place, reader)
                if after == every:
                    return versions
        except UnavailableError:
            self.complete = False
            return []

    def _read_files(self, every: Iterable[Found]) -> Iterator[tuple[Found, str, tuple[Ref, ...]]]:
        for found in every:
            try:
                content, came = self._files.load(found.place, LARGEST), self._files.origin(found)
            except UnavailableError:
                raise
            except (AbsentError, UnusableError):
                continue
            yield found, version_of(found.place, content).version, came

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Skip records that cannot be read: one damaged record must not hide all others."""
        try:
            yield
        except SchemaError:
            self.complete = False

    def _labels(self, there: Iterable[Label]) -> list[Label]:
        """Return those labels whose items may be shown."""
        return [label for label in there if self._viewer.may_read(label)]

    def _new(self, where: str, ids: Iterable[str]) -> list[str]:
        """Return those ids that were not looked up yet."""
        wanted = [name for name in dict.fromkeys(ids) if (where, name) not in self._looked_up]
        self._looked_up.update((where, name) for name in wanted)
        return wanted

    async def _read(self, sid: str) -> SessionState | None:
        try:
            state = await self._store.sessions.state(sid)
        except SchemaError:
            state = None
        if state is None:
            await self._tombstone(sid)
            return None
        if not self._viewer.may_know(state):
            return None
        events = await self._events(state)
        deliveries = await self._store.outbox.deliveries(sid)
        after = await self._store.sessions.state(sid)
        # The record's taint now covers everything the session had read when it wrote the newest of these.
        if after is None or after.generation != state.generation or not self._viewer.may_know(after):
            return None
        self._take(after, events, deliveries)
        refs = [ref for one in (*events, *deliveries) for ref in one.refs if isinstance(ref, ScheduleRef)]
        await self.schedules([*(ref.schedule for ref in refs), after.charter.schedule if after.charter else ""])
        await self.workflow_states(ref for event in events for ref in event.refs)
        await self._webhooks(after)
        await self._named(after, events)
        return after

    def _take(self, state: SessionState, events: Sequence[Event], deliveries: Iterable[Delivery]) -> None:
        """Add a session with its events and deliveries."""
        first = next((event for event in events if isinstance(event.body, UserMessage)), None)
        self.known.add(facts.session_fact(state, first))
        told = set[int]()
        for delivery in deliveries:
            if self._viewer.may_read(delivery.label) and self._is_now(delivery.generation, state):
                self.known.add(facts.delivery_fact(delivery))
                told.update(ref.last for ref in delivery.refs if isinstance(ref, EventsRef) and not ref.session)
        begun = set[int]()
        for event in events:
            unseen = self._viewer.program and event.visibility is Visibility.INTERNAL
            for found in facts.event_facts(event, state):
                fact = replace(found, node=None) if unseen else found
                self.known.add(fact)
                if fact.seq and fact.node is not None and event.generation not in begun:
                    begun.add(event.generation)
                    self.known.begin(state.sid, fact.id)
            said = isinstance(event.body, AgentMessage) and event.visibility is Visibility.USER
            if said and event.seq not in told and state.background is None:
                self.known.add(facts.said_fact(event, state))

    async def _events(self, state: SessionState) -> list[Event]:
        """Read a session's events that may be shown: those of its generation, and for the operator all."""
        after = 0 if self._viewer.reader is None else max(state.generation_seq - 1, 0)
        found = list[Event]()
        while some := await self._store.sessions.events(state.sid, after=after, limit=_PAGE):
            after = some[-1].seq
            found += (event for event in some if self._viewer.may_read(event.label))
        return found

    def _is_now(self, generation: int, state: SessionState) -> bool:
        return self._viewer.reader is None or generation == state.generation

    async def _named(self, state: SessionState, events: Iterable[Event]) -> None:
        """Read the memories, skills and files that events name."""
        memories, skills, paths = dict[str, None](), dict[str, None](), dict[tuple[str, int], None]()
        read = list[tuple[FileRef, Label]]()
        for event in events:
            for ref in event.refs:
                match ref:
                    case MemoryRef(memory):
                        memories[memory] = None
                    case SkillRef(skill):
                        skills[skill] = None
                    case FileRef(path):
                        read.append((ref, event.label))
                        paths[path, event.generation] = None
                    case _:
                        pass
            written = facts.written_path(event)
            if written is not None:
                paths[written, event.generation] = None
        await self.memory(state.principal, memories)
        await self.skill(state.principal, skills)
        for path, generation in paths:
            workspace = names.is_workspace(path)
            await self.file(path, state.sid if workspace else "", generation if workspace else 1)
        # A file that is gone has the label of the results that read it.
        for ref, label in read:
            self.known.add(facts.file_fact(ref.path, state.sid, ref.version, label))

    async def _webhooks(self, state: SessionState) -> None:
        """Read how far a program was sent the events of its session."""
        if not is_program(state.principal):
            return
        for webhook in await self._store.webhooks.owned(state.principal):
            at = (await self._store.webhooks.positions(webhook.id, (state.sid,))).get(state.sid)
            if at is not None and at.seq:
                self.known.add(facts.webhook_fact(webhook, at, state))

    async def _tombstone(self, sid: str) -> None:
        """Add the fact of a deleted session for the operator; any other viewer sees none."""
        holder = await self._store.lifecycle.holder(sid) if self._viewer.reader is None else None
        if holder is not None and holder.status is Status.DELETED:
            self.known.bury(facts.deleted_fact(sid, holder.updated_at, self._document().top))
