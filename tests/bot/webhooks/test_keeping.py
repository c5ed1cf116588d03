"""What programs ask of their webhooks: once under a key, again after they were disabled, and nothing left of them."""

import asyncio
from collections import deque
from pathlib import Path

import pytest

from bot.access.tokens import ApiCaller
from bot.core.errors import NotFoundError
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from bot.sessions.webhooks import WebhookPosition
from policy.labels import parse
from tests.bot.api.kit import MAKER
from tests.bot.webhooks.kit import CLEARANCE, begin, desk, hook_config, program, until
from tests.sim.receiver import receiver

pytestmark = pytest.mark.anyio

KEY = {"idempotency-key": "k1"}
URL = "https://hooks.example.org/in"


async def test_a_lost_answer_leaves_no_second_webhook(tmp_path: Path) -> None:
    async with program(tmp_path, hook_config(per_program=2)) as ci:
        body = {"url": URL, "types": ["agent.message"]}
        first = await ci.client.post("/v1/webhooks", json=body, headers=KEY)
        again = await ci.client.post("/v1/webhooks", json={**body, "level": "progress"}, headers=KEY)
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json() == first.json()
        assert first.json()["secret"].startswith("whsec_")
        for other in ({"url": URL}, {**body, "level": "user"}, {**body, "sessions": ["s"]}, {**body, "url": f"{URL}2"}):
            refused = await ci.client.post("/v1/webhooks", json=other, headers=KEY)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        assert len(await ci.listed()) == 1
        made = await ci.client.post("/v1/webhooks", json=body, headers={"idempotency-key": "k2"})
        assert made.status_code == 201
        assert made.json()["secret"] != first.json()["secret"]
        # One that found no room does so as long as there is none, and is made by its key then.
        full = await ci.client.post("/v1/webhooks", json=body, headers={"idempotency-key": "k3"})
        assert full.status_code == 400
        await ci.client.delete(f"/v1/webhooks/{made.json()['id']}")
        assert (await ci.client.post("/v1/webhooks", json=body, headers={"idempotency-key": "k3"})).status_code == 201


async def test_the_same_key_at_once_is_one_webhook(tmp_path: Path) -> None:
    async with program(tmp_path, hook_config()) as ci:
        answers = await asyncio.gather(
            *(ci.client.post("/v1/webhooks", json={"url": URL}, headers=KEY) for _ in range(6))
        )
        assert {one.status_code for one in answers} <= {200, 201}
        assert len({one.text for one in answers}) == 1
        assert len(await ci.listed()) == 1


async def test_a_key_is_its_programs_and_makes_nothing_that_was_deleted(tmp_path: Path) -> None:
    async with program(tmp_path, hook_config()) as ci:
        first = (await ci.client.post("/v1/webhooks", json={"url": URL}, headers=KEY)).json()
        async with ci.host.client(await ci.host.token("other")) as other:
            foreign = await other.post("/v1/webhooks", json={"url": URL}, headers=KEY)
            assert foreign.status_code == 201
            assert foreign.json()["id"] != first["id"]
        await ci.client.delete(f"/v1/webhooks/{first['id']}")
        assert (await ci.client.post("/v1/webhooks", json={"url": URL}, headers=KEY)).status_code == 404
        assert await ci.listed() == []


async def test_a_secret_is_replaced_once_by_a_key(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        hook = await ci.hook(here)
        path = f"/v1/webhooks/{hook['id']}/secret"
        first, again = [(await ci.client.post(path, headers=KEY)).json() for _ in range(2)]
        assert first == again
        await begin(ci.app)
        (got,) = await here.have(1)
        # Had it been replaced twice, the one before would sign no more.
        assert got.verified(hook["secret"]) == got.verified(first["secret"])
        conflict = await ci.client.post("/v1/webhooks", json={"url": URL}, headers=KEY)
        assert conflict.status_code == 409


async def test_no_key_and_no_secret_stands_in_the_store(tmp_path: Path) -> None:
    async with program(tmp_path, hook_config()) as ci:
        made = (
            await ci.client.post("/v1/webhooks", json={"url": URL}, headers={"idempotency-key": "shibboleth"})
        ).json()
        vault = ci.app.vault()
        assert [name for name in await vault.names("webhook") if "shibboleth" in name or made["secret"] in name] == []
        assert len(await vault.names("webhook-promise/")) == 1


async def test_what_happened_while_it_was_disabled_is_sent_in_order(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, retries=(600,))) as ci:
        hook = await ci.hook(here)
        session, other = await begin(ci.app), await begin(ci.app)
        await here.have(2)
        here.answers = deque([503, 410])
        waits = await session.say("it waits for ten minutes")
        await here.have(3)
        gone = await other.say("it is gone")
        await until(ci.ended)
        said = await session.say("one", "two")
        await asyncio.sleep(1.5)
        before = len(here.got)
        enabled = (await ci.client.post(f"/v1/webhooks/{hook['id']}/enable")).json()
        assert (enabled["disabled"], enabled["failing"]) == (None, None)
        # What waited for a further try is tried at once, and all tries are there again.
        await here.have(before + 4)
        assert here.seqs(session.sid)[1:] == [*waits, *waits, *said]
        assert here.seqs(other.sid)[1:] == [*gone, *gone]
        await until(ci.works)
        assert (await ci.client.post(f"/v1/webhooks/{hook['id']}/enable")).json() == (await ci.listed())[0]
        rows = [one.body["do"] for one in await ci.app.store.audit.records("audit") if one.kind == "webhook"]
        assert rows == ["make", "enable"]
        assert await ci.dead() == []


async def test_webhooks_of_a_revoked_program_are_forgotten(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here)) as made:
        hook, session = await made.hook(here), await begin(made.app)
        app, store = made.app, made.app.store.webhooks
        await app.token_keeper.create(TokenRequest("late", Scope.STEER, parse(CLEARANCE), 1), MAKER)
        late = ApiCaller(
            next(one.token for one in await app.token_keeper.listed() if one.token.name == "late"), made.caller.caller
        )
        expired = await made.keeper.make(late, made.wanted(here))
        async with made.sending(sweep_seconds=0.3):
            await here.have(1)
            await app.token_keeper.revoke("ci", "owner")

            async def forgotten() -> bool:
                return not await store.owned("ci")

            await until(forgotten)
            await asyncio.sleep(0.5)
        assert await store.positions(hook.id, (session.sid,)) == {}
        vault = app.vault()
        assert await vault.names("webhook/") == (f"webhook/{expired.webhook.id}/secrets",)
        # Its token may be rotated.
        assert await store.owned("late") == (expired.webhook,)


async def test_a_deleted_session_leaves_nothing_where_no_process_sends(tmp_path: Path) -> None:
    async with receiver() as here, desk(tmp_path, hook_config(here, retries=())) as made:
        hook, store = await made.hook(here), made.app.store
        session, other = await begin(made.app), await begin(made.app)
        here.answers = deque([500, 500])
        async with made.sending():
            await here.have(2)

            async def given_up() -> bool:
                return len(await store.webhooks.dead(hook.id)) == 2

            await until(given_up)
        await store.lifecycle.delete(session.sid, ())
        known = await store.webhooks.positions(hook.id, (session.sid, other.sid))
        assert known == {other.sid: WebhookPosition(2)}
        assert [one.sid for one in await store.webhooks.dead(hook.id)] == [other.sid]


async def test_another_programs_is_not_enabled(tmp_path: Path) -> None:
    async with desk(tmp_path, hook_config()) as made:
        with pytest.raises(NotFoundError):
            await made.keeper.enable(made.caller, "none")
