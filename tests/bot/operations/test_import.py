"""Imports: a session comes back as it was exported, under its labels, or not at all."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.access.authorize import Caller, Ingress, authorize
from bot.access.decision_context import DecisionContext
from bot.core.clock import LAST_MS, moment
from bot.core.errors import ArchivedError, IllegalMoveError
from bot.operations.importing import ABOVE, Imported, ImportRefusedError
from bot.operations.signing import ExportKey
from bot.sessions.exports import MOST_DEPTH, BrokenExport, ExportEntry, Header, read, sealed
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import ItemHeld, SessionImported, SessionSummary, UserMessage
from bot.sessions.log.events import Event, NewEvent, Visibility
from bot.sessions.log.serialization import event_json
from bot.sessions.messages import Endorsed, Origin, OriginKind, SessionMessage
from bot.sessions.models import SessionQuery, Status, Title, Write
from bot.sessions.refs import EventsRef, InputRef
from policy.labels import PUBLIC, Label, join_all, parse
from policy.request import Role
from tests.bot.kit import TOP, bang, policy
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

STRANGER: Final = ExportKey(b"another installation's audit key")
KEY: Final = ExportKey(b"k" * 32)
OURS: Final = {"LOCKGATE_AUDIT_KEY": (b"k" * 32).hex()}
CONFIDENTIAL = parse("CONFIDENTIAL")


async def exported(person: Person, sid: str = "") -> bytes:
    """Return the operator's export of a session."""
    app = person.app
    state = await app.store.sessions.state(sid or person.sid)
    assert state is not None
    made = await app.exporter.export(await _standing(person), state, whole=True)
    assert made.text is not None
    return made.text.encode("ascii")


async def bring(person: Person, file: bytes, who: str = "owner", *, at_top: bool = False) -> Imported:
    return await person.app.importer.bring(file, who, "owner", TOP, at_top=at_top)


def entries(file: bytes) -> list[dict[str, object]]:
    """Return what an export tells of the events, without what ties its lines together."""
    lines = [json.loads(line) for line in file.splitlines()[1:-1]]
    return [{name: value for name, value in line.items() if name != "sum"} for line in lines]


def head(file: bytes) -> dict[str, object]:
    found = json.loads(file.splitlines()[0])
    return {name: found[name] for name in ("title", "last_turn")}


async def log(person: Person, sid: str) -> tuple[Event, ...]:
    return await person.app.store.sessions.events(sid, limit=10_000)


async def _standing(person: Person) -> DecisionContext:
    caller = authorize(person.app.gate.document, person.account, Ingress.COMMAND, Role.OWNER)
    assert isinstance(caller, Caller)
    destination = await person.app.gate.readers.destination(person.address)
    return DecisionContext.of_caller(caller, person.address, destination, person.app.clock.wall_ms())


async def told(person: Person) -> bytes:
    """Let a session read, be refused, be named and tell of it, and return its export."""
    await person.say(bang("read_file", path="confidential/pipeline.md"))
    await person.say("/name the pipeline")
    await person.say(bang("message", channel="console", recipient="nobody", text="x"))
    await person.say("x" * 40_000)
    return await exported(person)


@pytest.mark.anyio
async def test_an_export_of_an_import_equals_the_first(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        file = await told(owner)
        made = await bring(owner, file)
        assert (made.entries, made.known) == (len(entries(file)), False)
        again = await exported(owner, made.sid)
        assert entries(again)[:-1] == entries(file)
        assert head(again) == head(file)
        assert entries(again)[-1]["type"] == "session.imported"
        # And so does one of that.
        second = await bring(owner, again)
        assert second.sid != made.sid
        assert entries(await exported(owner, second.sid))[:-1] == entries(again)


@pytest.mark.anyio
async def test_it_is_archived_with_its_labels_and_tells_where_it_came_from(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        file = await told(owner)
        made = await bring(owner, file)
        first, state = await owner.state(), await owner.app.store.sessions.state(made.sid)
        assert state is not None
        events = await log(owner, made.sid)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert (state.status, state.principal, state.generation) == (Status.ARCHIVED, "owner", 1)
        assert state.taint == join_all(event.label for event in events if event.admitted) == first.taint
        assert all(event.label.flows_to(state.visibility) for event in events)
        (source,) = bodies(events, SessionImported)
        assert (source.session, source.generation, source.at_top) == (owner.sid, 1, False)
        assert source.key == await asyncio.to_thread(owner.app.exporter.public_key)
        (row,) = await owner.app.store.audit.records(made.sid)
        assert (row.kind, row.actor, row.body["principal"], row.body["export"]) == (
            "imported",
            "owner",
            "owner",
            owner.sid,
        )
        page = await owner.app.store.index.listed(SessionQuery("owner", TOP, archived=True))
        assert made.sid in {one.sid for one in page.sessions}
        page = await owner.app.store.index.listed(SessionQuery("owner", TOP))
        assert made.sid not in {one.sid for one in page.sessions}
        with pytest.raises(ArchivedError):
            await owner.app.store.sessions.accept(
                NewItem(made.sid, "d", "owner", PUBLIC, SessionMessage("go on"), state.home, "owner")
            )
        assert "pipeline" in await owner.say(f"/history {made.sid}")


@pytest.mark.anyio
async def test_the_same_file_is_the_same_session(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner"), "ben": principal("console:ben", role="member", clearance="top")}
    async with running(tmp_path, policy(principals=people)) as owner:
        file = await told(owner)
        first, second = await bring(owner, file), await bring(owner, file.removesuffix(b"\n"))
        assert (second.sid, second.known) == (first.sid, True)
        assert len(await owner.app.store.audit.records(first.sid)) == 1
        assert (await bring(owner, file, "ben")).sid != first.sid
        assert (await bring(owner, file, at_top=True)).sid != first.sid


@pytest.mark.anyio
async def test_what_is_above_the_person_it_is_for_is_refused_and_not_told_of(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner"), "ben": principal("console:ben", role="member", clearance="INTERNAL")}
    async with running(tmp_path, policy(principals=people), environment=OURS) as owner:
        file = await told(owner)
        below = file_of([entry(1)])
        assert (await bring(owner, below, "ben")).label == PUBLIC
        for given in (file, file_of([entry(1)], label=CONFIDENTIAL), file_of([entry(1, CONFIDENTIAL)])):
            with pytest.raises(ImportRefusedError) as caught:
                await bring(owner, given, "ben")
            assert str(caught.value) == ABOVE
        with pytest.raises(ImportRefusedError) as caught:
            await owner.app.importer.bring(file, "owner", "ben", parse("INTERNAL"), at_top=False)
        assert str(caught.value) == ABOVE
        # A compartment that nobody here has is above everybody.
        with pytest.raises(ImportRefusedError, match=ABOVE):
            await bring(owner, file_of([entry(1, parse("INTERNAL{elsewhere}"))]))
        with pytest.raises(ImportRefusedError, match="`nobody` is no person with an account"):
            await bring(owner, below, "nobody")


@pytest.mark.anyio
async def test_a_file_of_a_stranger_counts_at_top_or_not_at_all(tmp_path: Path) -> None:
    """Law `labels_are_never_parsed_from_content`."""
    said = [
        entry(1),
        entry(2, body=ItemHeld("h1", "held", PUBLIC)),
        entry(3, body=UserMessage("do it", Origin(OriginKind.TASK, "s", ("a",), (Endorsed("s", "yes", "r", 1000),)))),
    ]
    file = file_of(said, STRANGER, title=Title("mine", PUBLIC))
    async with running(tmp_path) as owner:
        with pytest.raises(ImportRefusedError, match="signed by an installation that is not known here") as caught:
            await bring(owner, file)
        assert caught.value.next_step == "name its key under `imports.keys`, or import it `--as-top`"
        made = await bring(owner, file, at_top=True)
        state, events = await owner.app.store.sessions.state(made.sid), await log(owner, made.sid)
        assert state is not None
        assert state.taint == state.creation == TOP
        assert {event.label for event in events} == {TOP}
        assert state.given_title == Title("mine", TOP)
        (held,) = bodies(events, ItemHeld)
        assert held.floor == TOP
        origins = [body.origin for body in bodies(events, UserMessage) if body.origin is not None]
        assert [(origin.typed, origin.endorsed) for origin in origins] == [((), ())]


@pytest.mark.anyio
async def test_a_file_of_one_whose_key_is_configured_counts(tmp_path: Path) -> None:
    config = policy(blocks={"imports": {"keys": {"harbour": STRANGER.public}}})
    async with running(tmp_path, config) as owner:
        made = await bring(owner, file_of([entry(1, parse("INTERNAL~"))], STRANGER))
        assert made.label == parse("INTERNAL~")
        (source,) = bodies(await log(owner, made.sid), SessionImported)
        assert owner.app.importer.signer(source.key) == "harbour"


@pytest.mark.anyio
async def test_a_later_generation_is_told_from_its_own_beginning(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("an old one")
        await owner.say("/reset confirm")
        await owner.say("a new one")
        store, state = owner.app.store.sessions, await owner.state()
        claim = await store.claim(owner.sid, "me", idle=True)
        assert claim is not None
        begin = state.generation_seq
        refs = (EventsRef(begin, begin + 1), EventsRef(1, 2), EventsRef(4, 5, "other"), InputRef("d"))
        summary = NewEvent("owner", PUBLIC, SessionSummary("short", 2), Visibility.USER, refs=refs)
        await store.record(claim, Write(owner.app.ids.op(), claim.state.seq, events=(summary,), release=True))
        file = await exported(owner)
        assert b"an old one" not in file
        assert [one["seq"] for one in entries(file)] == list(range(1, len(entries(file)) + 1))
        assert entries(file)[-1]["refs"] == "e1-2 e4-5@other id"
        made = await bring(owner, file)
        assert entries(await exported(owner, made.sid))[:-1] == entries(file)


@pytest.mark.anyio
async def test_an_export_that_leaves_something_out_is_refused_by_its_line(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await told(owner)
        state = await owner.state()
        made = await owner.app.exporter.export(await _standing(owner), state)
        assert made.text is not None
        with pytest.raises(ImportRefusedError, match=r"line \d+ is entry \d+ where \d+ is due"):
            await bring(owner, made.text.encode())


def entry(seq: int, label: Label = PUBLIC, body: UserMessage | ItemHeld | None = None) -> ExportEntry:
    said = UserMessage("hello") if body is None else body
    kind = "item.held" if isinstance(said, ItemHeld) else "user.message"
    return ExportEntry(seq, 5, "owner", kind, label, event_json(said), Visibility.USER, admitted=True, turn="t")


def file_of(
    said: Sequence[ExportEntry], key: ExportKey | None = None, *, label: Label = PUBLIC, title: Title | None = None
) -> bytes:
    return sealed(key or KEY, Header("s1", 1, label, 7, title), said).encode("ascii")


def test_the_last_moment_that_is_imported_can_be_shown() -> None:
    found = read(file_of([replace(entry(1), ts=LAST_MS)]))
    assert not isinstance(found, BrokenExport)
    assert moment(found.entries[0].entry.ts) == "9999-12-31 23:59:59"


@pytest.mark.anyio
async def test_no_address_leads_to_it_so_it_stays_archived(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        made = await bring(owner, await told(owner))
        for ends in ("", "/archive", f"/delete {owner.sid} confirm"):
            if ends:
                await owner.say(ends, wait=False)
            state = await owner.app.store.sessions.state(made.sid)
            assert state is not None
            with pytest.raises(IllegalMoveError, match="no chat leads to it"):
                await owner.app.lifecycle.restore(state, "owner")
            assert "no chat leads to it" in await owner.say(f"/restore {made.sid}", wait=False)


def deep(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "said,reason",
    [
        ([entry(2)], "line 2 is entry 2 where 1 is due, import an export that leaves nothing out"),
        ([entry(1), entry(1)], "line 3 is entry 1 where 2 is due"),
        ([entry(1), replace(entry(2), ts=-1)], "line 3 is not written as this version writes it"),
        ([replace(entry(1), ts=LAST_MS + 1)], "line 2 is not written as this version writes it"),
        ([replace(entry(1), refs="e1  e2")], "line 2 is not written as this version writes it"),
        ([replace(entry(1), body={"text": 5})], "line 2 is not written as this version writes it"),
        ([replace(entry(1), body={"text": "x", "more": 1})], "line 2 holds entries that this version does not know"),
        ([replace(entry(1), type="SHOUT")], "line 2 is not written as this version writes it"),
        (
            [replace(entry(1), type="x.y", body={"deep": deep(MOST_DEPTH)})],
            "line 2 is not written as this version writes it",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_named(said: list[ExportEntry], reason: str) -> None:
    found = read(file_of(said))
    assert isinstance(found, BrokenExport)
    assert found.reason[: len(reason)] == reason
