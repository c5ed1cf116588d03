"""Webhooks over real HTTP: in order, again until they are taken, and nothing that the program may not know."""

import asyncio
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
from standardwebhooks import WebhookVerificationError

from bot.sessions.log.event_types import AgentMessage
from bot.sessions.log.events import NewEvent
from bot.store.records.kinds import WEBHOOK
from bot.store.schema import WEBHOOKS
from bot.webhooks.delivery import BROKEN, UNSIGNED
from bot.webhooks.secrets import WebhookSecrets
from policy.labels import PUBLIC
from tests.bot.webhooks.kit import SECRET, begin, hook_config, program, until
from tests.clocks import CLOCKS
from tests.sim.receiver import receiver
from tests.store.world import alter, child, remembered

pytestmark = pytest.mark.anyio

SILENCE = 1.5
"""Longer than anything that is sent is waited for: a try comes after 1.2 seconds, a look after one."""


async def test_events_come_signed_and_in_order(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        hook = await ci.hook(here)
        session, other = await begin(ci.app), await begin(ci.app)
        foreign = await begin(ci.app, "other")
        said = [*await session.say("one", "two"), *await session.say("three")]
        await foreign.say("nothing of yours")
        await other.say("beside it")
        await here.have(6)
        # The message that began it comes first.
        assert here.seqs(session.sid) == [said[0] - 1, *said]
        assert {one["session"] for one in here.told()} == {session.sid, other.sid}
        ours = [one for one in here.got if one.told["data"]["session"] == session.sid]
        first = ours[1]
        told = first.verified(hook["secret"])
        assert told["type"] == "agent.message"
        assert told["timestamp"].endswith("Z")
        assert told["data"]["event"]["body"] == {"text": "one"}
        assert len(set(here.ids)) == len(here.ids)
        with pytest.raises(WebhookVerificationError):
            first.verified("whsec_bm90aGluZyBvZiB0aGUga2luZA==")


async def test_what_the_store_lost_of_what_was_sent_is_told(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        await ci.hook(here)
        session, store = await begin(ci.app), ci.app.store
        back = await remembered(store, session.sid)
        said = await session.say("one", "two")
        await here.have(3)
        await back()
        # Any change has the webhook look, which is behind the end of the log.
        await store.sessions.name(session.sid, None)
        await here.have(4)
        *_, lost = (one["event"] for one in here.told())
        assert (lost["type"], lost["seq"]) == ("log.truncated", said[-1] + 1)
        assert lost["body"] == {"kept": said[0] - 1, "lost": said[-1]}
        assert len(set(here.ids)) == 4


async def test_a_level_types_and_sessions_are_filters(tmp_path: Path) -> None:
    async with (
        receiver() as one,
        receiver() as two,
        receiver() as three,
        receiver() as last,
        program(tmp_path, hook_config(one, two, three, last)) as ci,
    ):
        session, other = await begin(ci.app), await begin(ci.app)
        await ci.hook(one, level="user")
        await ci.hook(two, types=["agent.message"])
        await ci.hook(three, sessions=[other.sid])
        await ci.hook(last)
        (worked,), (said,) = await session.work(), await session.say("yes")
        (beside,) = await other.say("no")
        await last.have(3)
        await one.have(2)
        await two.have(2)
        await three.have(1)
        await asyncio.sleep(0.3)
        assert sorted(one.seqs()) == sorted([said, beside])
        assert sorted(two.seqs()) == sorted([said, beside])
        assert three.seqs() == [beside]
        assert last.seqs(session.sid) == [worked, said]


@pytest.mark.parametrize("failing", [[500, 500], [0, 404], [302, 503]], ids=str)
async def test_what_is_not_taken_is_sent_again_under_its_id(tmp_path: Path, failing: list[int]) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        here.extra = (f"Location: {here.url}/inside",)
        hook = await ci.hook(here)
        session = await begin(ci.app)
        here.answers = deque(failing)
        said = await session.say("one", "two")
        got = await here.have(5)
        assert len(set(here.ids[:3])) == 1
        assert here.seqs()[2:] == [said[0] - 1, *said]
        # Also where it was sent on: no redirect is followed.
        assert {one.path for one in got} == {"/hook"}
        assert got[0].body == got[2].body
        for one in got:
            one.verified(hook["secret"])
        await until(ci.works)


async def test_a_receiver_is_left_alone_for_as_long_as_it_asks(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        await ci.hook(here)
        here.answers, here.extra = deque([429]), ("Retry-After: 4",)
        session = await begin(ci.app)
        await here.have(1)
        # What is new of the session does not have it tried sooner.
        await session.say("news")
        first, second = (one.at for one in (await here.have(2))[:2])
        assert 3.8 <= second - first <= 30


async def test_a_receiver_is_left_alone_for_an_hour_at_most(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        hook = await ci.hook(here)
        here.usual, here.extra = 503, ("Retry-After: 1000000",)
        session, store = await begin(ci.app), ci.app.store

        async def waits() -> int:
            at = (await store.webhooks.positions(hook["id"], (session.sid,))).get(session.sid)
            return 0 if at is None or not at.retry_at else at.retry_at - store.tokens.now_ms()

        await until(waits)
        assert 3_500_000 < await waits() <= 3_600_000 + CLOCKS


async def test_one_that_takes_nothing_is_tried_less_and_less_often(tmp_path: Path) -> None:
    """However many sessions have something for it: after five failures it rests, for longer each time."""
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        here.usual = 500
        await ci.hook(here)
        for _ in range(10):
            await begin(ci.app)
        times = [one.at for one in await here.have(8)]
        assert [times[tries] - times[tries - 1] >= rest for tries, rest in ((5, 1), (6, 2), (7, 4))] == [True] * 3


@pytest.mark.parametrize("left", [None, b"no JSON", b"[1]"])
async def test_nothing_is_sent_unsigned(tmp_path: Path, left: bytes | None) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, retries=())) as ci:
        hook = await ci.hook(here)
        await WebhookSecrets(ci.app.vault, ci.app.clock).drop(hook["id"])
        if left is not None:
            await ci.app.vault().put(f"webhook/{hook['id']}/secrets", left)
        await begin(ci.app)
        await until(ci.dead)
        assert [(one["error"], here.got) for one in await ci.dead()] == [(UNSIGNED, [])]


async def test_one_that_is_gone_is_sent_nothing_more(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        await ci.hook(here)
        here.answers = deque([410])
        session = await begin(ci.app)
        await here.have(1)
        await until(ci.ended)
        assert (await ci.listed())[0]["disabled"] == "gone"
        await session.say("nobody hears this")
        await asyncio.sleep(SILENCE)
        assert len(here.got) == 1


async def test_one_that_took_nothing_for_days_is_sent_nothing_more(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, retries=[1] * 20)) as ci:
        here.usual = 500
        hook = await ci.hook(here)
        await begin(ci.app)
        await here.have(2)
        assert (await ci.listed())[0]["disabled"] is None
        since = ci.app.store.tokens.now_ms() - 6 * 86_400_000
        await alter(ci.app.store, WEBHOOK, WEBHOOKS, hook["id"], failing=since)
        await until(ci.ended)
        (told,) = await ci.listed()
        assert (told["disabled"], told["failing"]) == ("failing", since)


async def test_a_background_session_that_rose_before_it_was_seen_is_not_spoken_of(tmp_path: Path) -> None:
    """That it is there at all is what its parent read by then."""
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        await ci.hook(here)
        own = await begin(ci.app)
        await here.have(1)
        task = replace(child(own.sid), principal="program:ci", sender="program:ci", label=SECRET)
        await ci.app.store.sessions.accept(task)
        await own.say("after it")
        await here.have(2)
        await asyncio.sleep(1)
        assert {one["session"] for one in here.told()} == {own.sid}


async def test_a_webhook_of_a_session_that_may_not_be_known_is_made_as_of_any(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        risen, foreign = await begin(ci.app), await begin(ci.app, "other")
        await risen.rise()
        alike = set[str]()
        for sid in (risen.sid, foreign.sid, "a" * len(risen.sid)):
            hook = await ci.hook(here, sessions=[sid])
            alike.add(str({**hook, "id": "", "secret": "", "sessions": hook["sessions"] == [sid], "created_at": 0}))
        assert len(alike) == 1
        await foreign.say("nothing of yours")
        other = await begin(ci.app)
        await ci.hook(here, sessions=[other.sid])
        await other.say("of yours")
        await here.have(1)
        assert {one["session"] for one in here.told()} == {other.sid}


async def test_one_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    async with (
        receiver() as stuck,
        receiver() as here,
        program(tmp_path, hook_config(stuck, here, seconds=60)) as ci,
    ):
        stuck.usual = 0
        for _ in range(12):
            await ci.hook(stuck)
        await ci.hook(here)
        sessions = [await begin(ci.app) for _ in range(6)]
        # Also as long as nobody knows yet that the others hang.
        await here.have(6, 50)
        said = [(await one.say("at once"))[0] for one in sessions]
        await here.have(12, 50)
        assert [here.seqs(one.sid)[-1] for one in sessions] == said
        # Four of each webhook at once, and thirty-two in all.
        assert stuck.open <= 32


async def test_what_was_given_up_is_listed_and_sent_again(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, retries=(1,))) as ci:
        hook = await ci.hook(here)
        session = await begin(ci.app)
        await here.have(1)
        here.answers = deque([500, 500])
        first, second = await session.say("lost", "kept")
        await here.have(4)
        assert here.seqs() == [first - 1, first, first, second]
        (dead,) = await ci.dead()
        assert {name: dead[name] for name in ("webhook", "session", "seq", "attempts", "error", "again")} == {
            "webhook": hook["id"],
            "session": session.sid,
            "seq": first,
            "attempts": 2,
            "error": "it answered with status 500",
            "again": False,
        }
        assert dead["id"] == here.ids[1]
        here.answers = deque([500])
        again = f"/v1/webhooks/dead/{dead['id']}/redeliver"
        answer = await ci.client.post(again)
        assert (answer.status_code, answer.json()) == (202, {"id": dead["id"]})
        await here.have(5)

        async def failed() -> bool:
            return (await ci.dead())[0]["attempts"] == 3

        await until(failed)
        await ci.client.post(again)
        await here.have(6)
        assert here.ids[1] == here.ids[4] == here.ids[5]
        await until(ci.nothing_dead)
        assert (await ci.client.post(again)).status_code == 404


async def test_what_cannot_be_sent_is_given_up_and_ends_nothing_else(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, retries=())) as ci:
        hook = await ci.hook(here, types=["user.message"])
        # What signs its messages is no secret.
        await ci.app.vault().put(f"webhook/{hook['id']}/secrets", b'[["whsec_%", 0]]')
        session = await begin(ci.app)
        await until(ci.dead)
        (dead,) = await ci.dead()
        assert dead["error"] == BROKEN
        assert (await ci.client.post(f"/v1/webhooks/dead/{dead['id']}/redeliver")).status_code == 202

        async def failed() -> bool:
            return (await ci.dead())[0]["attempts"] == 2

        await until(failed)
        await ci.hook(here)
        await session.say("still sent")
        await here.have(1)


async def test_a_session_that_rises_tells_one_constant_event(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        await ci.hook(here)
        session, other = await begin(ci.app), await begin(ci.app)
        await here.have(2)
        here.usual = 500
        await session.say("it was not taken before")
        await here.have(3)
        here.usual = 204
        await session.rise()
        await session.say("secret", label=SECRET)
        await here.have(4)
        await other.say("still here")
        await here.have(5)
        await asyncio.sleep(SILENCE)
        assert [one.told["data"] for one in here.got if one.told["type"] == "session.unavailable"] == [
            {"session": session.sid}
        ]
        # One is the event that failed before it rose.
        assert len(here.seqs(session.sid)) == 2
        assert b"secret" not in b"".join(one.body for one in here.got)
        assert len(here.got) == 5


async def test_of_a_session_that_was_above_nothing_is_told(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        before = await begin(ci.app)
        await before.rise()
        await ci.hook(here)
        above, other = await begin(ci.app, label=SECRET), await begin(ci.app)
        await before.say("secret")
        await above.say("secret")
        await here.have(1)
        await asyncio.sleep(SILENCE)
        assert {one["session"] for one in here.told()} == {other.sid}


async def test_what_was_given_up_of_a_session_that_rose_is_gone(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, retries=())) as ci:
        here.usual = 500
        await ci.hook(here)
        session = await begin(ci.app)
        await until(ci.dead)
        (dead,) = await ci.dead()
        await session.rise()
        assert await ci.dead() == []
        answer = await ci.client.post(f"/v1/webhooks/dead/{dead['id']}/redeliver")
        absent = await ci.client.post("/v1/webhooks/dead/msg-none/redeliver")
        assert answer.status_code == absent.status_code == 404
        assert answer.json()["error"] == absent.json()["error"]


async def test_a_token_that_is_revoked_ends_its_webhooks(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        await ci.hook(here)
        session = await begin(ci.app)
        await here.have(1)
        await ci.app.token_keeper.revoke("ci", "owner")
        await session.say("nobody hears this")
        await asyncio.sleep(SILENCE)
        assert len(here.got) == 1


async def test_a_secret_is_replaced_without_a_gap(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        hook = await ci.hook(here)
        session = await begin(ci.app)
        await here.have(1)
        new = (await ci.client.post(f"/v1/webhooks/{hook['id']}/secret")).json()
        assert new["secret"] != hook["secret"]
        await session.say("hello")
        got = (await here.have(2))[1]
        assert got.verified(hook["secret"]) == got.verified(new["secret"])


async def test_one_that_is_deleted_is_sent_nothing_more(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        hook = await ci.hook(here)
        session = await begin(ci.app)
        await here.have(1)
        assert (await ci.client.delete(f"/v1/webhooks/{hook['id']}")).status_code == 204
        assert (await ci.client.delete(f"/v1/webhooks/{hook['id']}")).status_code == 404
        assert await ci.listed() == []
        await asyncio.sleep(SILENCE)
        await session.say("nobody hears this")
        await asyncio.sleep(1)
        assert len(here.got) == 1


async def test_what_was_before_a_reset_and_what_is_internal_is_not_sent(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        here.usual = 500
        await ci.hook(here, level="progress")
        session = await begin(ci.app)
        await here.have(1)
        await session.write(NewEvent("agent", PUBLIC, AgentMessage("withheld"), turn="t"))
        await session.say("this waits behind the message")
        await ci.app.store.sessions.reset(session.sid, op="r1", actor="ci", audit=())
        here.usual = 204
        again, reset = await begin(ci.app), session.seq + 1
        await again.say("after it")

        async def told() -> bool:
            return here.seqs(session.sid)[-1:] == [reset] and here.seqs(again.sid)[-1:] == [again.seq]

        await until(told)
        await asyncio.sleep(SILENCE)
        assert b"withheld" not in b"".join(one.body for one in here.got)
        # The message was tried before the reset, and is over with it; the reset itself is told.
        tried = here.seqs(session.sid)
        assert tried == [2] * (len(tried) - 1) + [reset]


async def test_a_session_that_is_deleted_is_not_spoken_of(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        here.usual = 500
        await ci.hook(here)
        session = await begin(ci.app)
        await here.have(1)
        await ci.app.store.lifecycle.delete(session.sid, ())
        here.usual = 204
        before = len(here.got)
        await asyncio.sleep(SILENCE)
        assert len(here.got) - before <= 1
        assert await ci.dead() == []


async def test_the_audit_tells_of_webhooks_and_of_reading(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here)) as ci:
        hook = await ci.hook(here)
        session = await begin(ci.app)
        await session.say("one", "two", "three")
        await here.have(4)
        rows = [one for one in await ci.app.store.audit.records("audit") if one.kind in {"webhook", "read"}]
        assert [(one.kind, one.actor) for one in rows] == [("webhook", "program:ci"), ("read", "program:ci")]
        assert rows[0].body == {"do": "make", "webhook": hook["id"], "url": here.url}
        assert rows[1].body == {"session": session.sid, "reading": "webhook", "label": "PUBLIC"}
        assert hook["secret"] not in str(rows)


async def test_another_program_finds_nothing(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, retries=())) as ci:
        here.usual = 500
        hook = await ci.hook(here)
        await begin(ci.app)
        await until(ci.dead)
        dead = (await ci.dead())[0]["id"]
        async with ci.host.client(await ci.host.token("other")) as other:
            for method, path in (
                ("GET", "/v1/webhooks/{}"),
                ("DELETE", "/v1/webhooks/{}"),
                ("POST", "/v1/webhooks/{}/secret"),
                ("GET", "/v1/webhooks/dead?webhook={}"),
                ("POST", "/v1/webhooks/dead/{}/redeliver"),
            ):
                name = dead if "redeliver" in path else hook["id"]
                foreign = await other.request(method, path.format(name))
                absent = await other.request(method, path.format("x" * len(name)))
                assert foreign.status_code == absent.status_code == 404
                assert foreign.json()["error"] == absent.json()["error"]
            assert (await other.get("/v1/webhooks")).json() == {"webhooks": []}
            assert (await other.get("/v1/webhooks/dead")).json() == {"dead": []}
        assert len(await ci.listed()) == 1


async def test_a_program_has_as_many_as_it_may(tmp_path: Path) -> None:
    async with receiver() as here, program(tmp_path, hook_config(here, per_program=1)) as ci:
        await ci.hook(here)
        answer = await ci.client.post("/v1/webhooks", json={"url": here.url})
        assert 400 <= answer.status_code < 500
        assert (await ci.client.post("/v1/webhooks", json={"url": here.url, "types": ["no.such"]})).status_code < 500
        assert len(await ci.listed()) == 1
