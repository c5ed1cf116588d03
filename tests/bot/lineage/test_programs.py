"""What a program's webhook was sent, in a trace: of its own sessions, as far as the webhook came."""

from pathlib import Path

import pytest

from bot.lineage.graph import NodeKind
from bot.lineage.loading import LineageViewer
from bot.lineage.tracer import LineageQuery
from bot.lineage.walk import Direction
from bot.sessions.api_tokens import Scope
from bot.sessions.log.events import Visibility
from bot.sessions.webhooks import ProgramWebhook, WebhookPosition
from lockgate.client import Client
from policy.labels import parse
from tests.bot.api.kit import served
from tests.bot.kit import bang

pytestmark = pytest.mark.anyio


async def test_a_webhook_has_seen_what_it_was_sent_and_nothing_behind_that(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token(scope=Scope.STEER)) as client:
        session = await client.sessions.create("hello")
        await client.sessions.result(session.id, wait=20)
        store, sid = host.app.store, session.id
        state = await store.sessions.state(sid)
        assert state is not None
        webhook = ProgramWebhook("w1", state.principal, "https://example.com/secret/path", Visibility.USER)
        assert await store.webhooks.add(webhook, 5)
        await store.webhooks.note("w1", sid, WebhookPosition(seq=3))

        async def seen(seq: int) -> list[str]:
            query = LineageQuery(f"{sid}-{seq}", Direction.FORWARD, depth=1)
            trace = await host.app.lineage.trace(query, LineageViewer())
            return [one.node.where for one in trace.nodes if one.node.kind is NodeKind.WEBHOOK]

        assert await seen(3) == ["example.com"]
        assert await seen(4) == []
        # What it was sent before a reset it has seen still.
        await store.sessions.reset(sid, op="reset", actor=state.principal, audit=())
        assert await seen(3) == ["example.com"]
        found = await host.app.lineage.trace(LineageQuery(f"webhook:w1@{sid}"), LineageViewer())
        assert f"{sid}-3" in [one.node.id for one in found.nodes]


async def test_the_row_of_a_trace_has_the_label_of_all_that_was_traced_whatever_its_page_shows(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token(scope=Scope.STEER)) as client:
        session = await client.sessions.create(bang("read_file", path="confidential/pipeline.md"))
        await client.sessions.result(session.id, wait=20)
        whole = await client.audit.trace(session.id)
        below = [place for place, node in enumerate(whole.nodes) if node.label == "PUBLIC"]
        for cursor in (str(below[0]), "900"):
            page = await client.audit.trace(session.id, cursor=cursor, limit=1)
            assert {node.label for node in page.nodes} <= {"PUBLIC", None}
            assert session.id in page.start[0]
        rows = await host.app.audit.newest("audit", 50, parse("RESTRICTED~"))
        assert {str(row.label) for row in rows if "traced" in row.record.body} == {"CONFIDENTIAL~"}
        told = await host.app.audit.newest("audit", 50, parse("PUBLIC~"))
        assert session.id not in "".join(str(row.record.body) for row in told)


async def test_a_program_is_not_told_of_what_people_in_a_chat_do_not_see(tmp_path: Path) -> None:
    async with served(tmp_path) as host, Client(host.url, await host.token(scope=Scope.STEER)) as client:
        session = await client.sessions.create(bang("read_file", path="public/welcome.md", _hold=True))
        await client.sessions.result(session.id, wait=20)
        query = LineageQuery("file:public/welcome.md", Direction.FORWARD)
        whole = await host.app.lineage.trace(query, LineageViewer())
        unseen = {one.node.id for one in whole.nodes if one.node.kind is NodeKind.HELD}
        assert unseen
        told = await client.audit.trace("file:public/welcome.md", forward=True)
        seen = {node.id for node in told.nodes}
        assert seen
        assert not unseen & seen
