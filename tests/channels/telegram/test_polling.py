"""The Telegram adapter asks for updates in one process of all, loses none, and tells what is wrong."""

from collections.abc import AsyncGenerator, Callable
from itertools import count

import anyio
import pytest
from aiohttp import web

from channels.messages import Event, Inbound
from channels.telegram.client import BotApiRequests
from channels.telegram.menu import CommandMenu
from channels.telegram.polling import Poller, TelegramTiming
from channels.telegram.updates import Json
from tests.channels.contract import Leases, until
from tests.channels.telegram.kit import TelegramStage, staged
from tests.sim.telegram_state import BOT_ID

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[TelegramStage]:
    async with staged() as made:
        yield made


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Inbound)]


async def _nothing(_update: Json) -> None:
    raise AssertionError("nothing can come")


async def _adopted(_held: Callable[[], bool]) -> None:
    """Nothing is parked."""


async def problems(played: TelegramStage) -> str:
    return " ".join(trouble.problem for trouble in await played.adapter.troubles())


async def told(played: TelegramStage, problem: str) -> None:
    """Wait until the adapter tells of this problem."""
    with anyio.fail_after(60):
        while problem not in await problems(played):  # noqa: ASYNC110 - as `until`
            await anyio.sleep(0.01)


async def healed(played: TelegramStage, problem: str) -> None:
    """Wait until the adapter no longer tells of this problem."""
    with anyio.fail_after(60):
        while problem in await problems(played):  # noqa: ASYNC110 - as `until`
            await anyio.sleep(0.01)


async def test_what_is_told_is_handed_on_in_order_and_confirmed(played: TelegramStage) -> None:
    async with played.serving():
        for word in ("one", "two", "three"):
            played.alice.says(None, word)
        await until(lambda: len(texts(played.got)) == 3 and not played.server.state.updates)
    assert texts(played.got) == ["one", "two", "three"]
    asked = played.server.asked("getUpdates")
    assert '"chat_member"' in asked[0]["allowed_updates"]
    assert played.leases.asked == [f"telegram/{BOT_ID}"]


async def test_what_could_not_be_kept_comes_again_and_nothing_before_it(played: TelegramStage) -> None:
    for word in ("one", "two"):
        played.alice.says(None, word)
    played.refusals = 2
    async with played.serving():
        await until(lambda: len(texts(played.got)) == 2)
    assert texts(played.got) == ["one", "two"]
    dedupes = [event.dedupe for event in played.got]
    assert len(set(dedupes)) == len(dedupes)


async def test_an_update_is_not_confirmed_before_it_is_kept(played: TelegramStage) -> None:
    played.alice.says(None, "one")
    played.refusals, played.vault.full = 1_000_000, True
    async with played.serving():
        await until(lambda: len(played.server.asked("getUpdates")) > 2)
        await told(played, "could not be kept")
    assert played.server.state.updates
    # another process, later
    played.refusals = 0
    async with played.serving():
        await until(lambda: texts(played.got))
    assert texts(played.got) == ["one"]


async def test_numbers_that_begin_lower_after_a_quiet_week_are_no_loss() -> None:
    async with staged(timing=TelegramTiming(poll=0, call=20, pause=0.01, longest=0.05)) as played, played.serving():
        played.alice.says(None, "one")
        await until(lambda: texts(played.got))
        # What came is confirmed first, and named no more by the poll after the next.
        await until(lambda: any("offset" in asked for asked in played.server.asked("getUpdates")))
        await until(lambda: "offset" not in played.server.asked("getUpdates")[-1])
        played.server.state.numbers = count(5)
        played.alice.says(None, "two")
        await until(lambda: texts(played.got) == ["one", "two"])


async def test_the_same_update_has_the_same_dedupe(played: TelegramStage) -> None:
    async with played.serving():
        played.alice.says(None, "one")
        await until(lambda: texts(played.got))
        played.server.repeat_updates()
        await until(lambda: len(texts(played.got)) == 2)
    assert len({event.dedupe for event in played.got}) == 1


async def test_one_of_two_replicas_polls_and_the_other_takes_over(played: TelegramStage) -> None:
    other: list[Event] = []

    async def receive(event: Event) -> None:
        other.append(event)

    second = played.another(leases=played.leases)
    async with anyio.create_task_group() as tasks:
        async with played.serving():
            await until(lambda: played.server.asked("getUpdates"))
            tasks.start_soon(second.serve, receive)
            await until(lambda: len(played.leases.asked) == 2)
            played.alice.says(None, "one")
            await until(lambda: texts(played.got))
            # What was not confirmed is told to the next as well.
            await until(lambda: any("offset" in asked for asked in played.server.asked("getUpdates")))
        played.alice.says(None, "two")
        await until(lambda: texts(other))
        tasks.cancel_scope.cancel()
    await second.close()
    assert (texts(played.got), texts(other)) == (["one"], ["two"])


async def test_a_right_lost_in_the_middle_of_a_batch_ends_it(played: TelegramStage) -> None:
    for word in ("one", "two", "three"):
        played.alice.says(None, word)

    async def receive(event: Event) -> None:
        played.got.append(event)
        if len(played.got) == 1:
            played.leases.lost = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(played.adapter.serve, receive)
        await until(lambda: len(played.leases.asked) > 2)
        assert played.server.state.updates
        played.leases.lost = False
        await until(lambda: len(texts(played.got)) == 6)
        tasks.cancel_scope.cancel()
    # Nobody confirmed any of them: they are told again, and known by their dedupes.
    assert texts(played.got) == ["one", "two", "three"] * 2
    assert len({event.dedupe for event in played.got}) == 3


async def test_a_right_that_cannot_be_had_is_waited_for(played: TelegramStage) -> None:
    played.leases.broken = True
    async with played.serving():
        await until(lambda: len(played.leases.asked) > 2)
        await told(played, "right to poll")
        played.leases.broken = False
        played.alice.says(None, "one")
        await until(lambda: texts(played.got))
        await healed(played, "right to poll")


async def test_another_program_that_polls_is_told_and_survived(played: TelegramStage) -> None:
    second = played.another(leases=Leases())
    async with played.serving():
        await until(lambda: played.server.asked("getUpdates"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.serve, played.receive)
            await told(played, "another program")
            tasks.cancel_scope.cancel()
        await second.close()
        played.alice.says(None, "one")
        await until(lambda: texts(played.got))
        await healed(played, "another program")


async def test_a_webhook_is_named(played: TelegramStage) -> None:
    played.server.state.webhook.url = "http://127.0.0.1:1/"
    async with played.serving():
        await until(lambda: len(played.server.asked("getUpdates")) > 1)
        assert (await problems(played)).count("webhook") == 1


async def test_a_poll_that_hangs_is_begun_anew() -> None:
    async with staged(timing=TelegramTiming(poll=0, call=1, pause=0.01, longest=0.05)) as played:
        played.server.slows("getUpdates", seconds=120)
        async with played.serving():
            await until(lambda: played.server.asked("getUpdates"))
            played.alice.says(None, "one")
            await until(lambda: texts(played.got))
    assert texts(played.got) == ["one"]


async def test_a_poll_whose_answer_drips_is_begun_anew() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b" ")
            await anyio.sleep(0.02)

    app = web.Application()
    app.router.add_post("/{path:.*}", drip)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    request = BotApiRequests(1, 0.2)
    timing = TelegramTiming(poll=0, call=0.2, pause=0.01, longest=0.02)
    poll = Poller(
        f"http://127.0.0.1:{runner.addresses[0][1]}/bot1:x", request, lease=Leases(), right="right", timing=timing
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll.run, _nothing, _adopted)
        await until(lambda: poll.stalls > 1)
        tasks.cancel_scope.cancel()
    await request.shutdown()
    await runner.cleanup()


async def test_the_age_of_the_last_poll_is_told() -> None:
    async with staged(timing=TelegramTiming(poll=0, call=0.5, pause=0.01, longest=0.05)) as played, played.serving():
        await until(lambda: len(played.server.asked("getUpdates")) > 3)
        played.server.slows("getUpdates", seconds=120, times=1_000)
        with anyio.fail_after(60):
            while "the last poll was answered" not in await problems(played):  # noqa: ASYNC110 - as above
                await anyio.sleep(0.05)


@pytest.mark.parametrize("status", [500, 502, 401])
async def test_errors_are_waited_for(played: TelegramStage, status: int) -> None:
    played.server.fails("getMe", status=status)
    played.server.fails("getUpdates", status=status, times=3)
    played.server.fails("getUpdates", retry_after=1)
    async with played.serving():
        played.alice.says(None, "one")
        await until(lambda: texts(played.got))


async def test_a_token_that_is_not_accepted_is_told_with_what_to_do() -> None:
    async with staged(token="1:no-such-token") as played, played.serving():  # noqa: S106 - it opens nothing
        with anyio.fail_after(60):
            while not (found := await played.adapter.troubles()):  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.01)
    assert len(found) == 1
    assert "@BotFather" in found[0].next_step


async def test_privacy_mode_is_a_remark_and_otherwise_nothing_is_wrong(played: TelegramStage) -> None:
    assert "privacy" in await problems(played)
    played.server.state.privacy = False
    assert await played.adapter.troubles() == ()
    played.server.fails("getMe")
    assert "cannot be reached" in await problems(played)


async def test_privacy_mode_is_trouble_where_groups_are_to_be_observed(played: TelegramStage) -> None:
    observing = played.another(observes=lambda: True)
    (found,) = await observing.troubles()
    await observing.close()
    assert not found.remark
    assert "cannot observe" in found.problem
    (found,) = await played.adapter.troubles()
    assert found.remark


async def test_the_menu_has_what_telegram_takes() -> None:
    commands = (("status", "x" * 300), ("Bad-Name", "no"), ("help", " "))
    async with staged(menu=CommandMenu(commands)) as played, played.serving():
        await until(lambda: played.server.state.commands)
        menu, *_ = played.server.state.commands.values()
    assert [(entry["command"], len(entry["description"])) for entry in menu] == [("status", 256), ("help", 4)]


async def test_admins_see_all_commands_in_their_private_chats_alone() -> None:
    """Who is no admin any more loses the menu, also after a restart, and one who has no chat yet stops nothing."""
    everybody, groups, every = (("help", "h"), ("pair", "p")), (("help", "h"),), (("help", "h"), ("block", "b"))
    async with staged() as played:
        alice, bob = played.alice.private, played.server.user("Bob").private

        async def shown(*admins: str) -> dict[str, list[str]]:
            adapter = played.another(menu=CommandMenu(everybody, groups, every), admins=lambda: frozenset(admins))
            before = len(played.server.asked("getUpdates"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(adapter.serve, played.receive)
                await until(lambda: len(played.server.asked("getUpdates")) > before)
                tasks.cancel_scope.cancel()
            await adapter.close()
            return {
                name.partition("]")[0]: [entry["command"] for entry in entries]
                for name, entries in played.server.state.commands.items()
                if entries
            }

        menus = await shown(f"telegram:{alice.id}", "telegram:77", f"telegram:{bob.id}", "slack:T:U")
        assert sorted(map(tuple, menus.values())) == [
            ("help",),
            ("help", "block"),
            ("help", "block"),
            ("help", "pair"),
        ]
        (of_groups,) = [name for name, entries in menus.items() if entries == ["help"]]
        assert "all_group_chats" in of_groups
        menus = await shown(f"telegram:{alice.id}")
        (of_admin,) = [name for name, entries in menus.items() if entries == ["help", "block"]]
        assert str(alice.id) in of_admin
        played.vault.broken = True
        assert await shown() == menus


async def test_who_becomes_an_admin_sees_the_menu_without_a_restart(played: TelegramStage) -> None:
    admins = set[str]()
    adapter = played.another(menu=CommandMenu(all=(("block", "b"),)), admins=lambda: frozenset(admins))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.serve, played.receive)
        for account in ({f"telegram:{played.alice.id}"}, set[str]()):
            admins.clear()
            admins.update(account)
            played.alice.says(None, "hello")

            def shown(account: set[str] = account) -> bool:
                return bool([one for one in played.server.state.commands.values() if one]) is bool(account)

            await until(shown)
        tasks.cancel_scope.cancel()
    await adapter.close()


async def test_an_update_that_cannot_be_read_does_not_stop_the_next(played: TelegramStage) -> None:
    played.server.state.tell("message", {"chat": 5})
    played.alice.says(None, "one")
    async with played.serving():
        await until(lambda: texts(played.got))
        assert "1 updates could not be understood" in await problems(played)


async def test_files_are_told_of_and_answered_by_nobody_but_the_application(played: TelegramStage) -> None:
    group = played.server.group("Team", played.alice)
    async with played.serving():
        played.alice.says(None, photo=b"\x89PNG")
        played.alice.says(None, "what is it?", document=("a.txt", b"x"))
        played.alice.says(group, f"@{played.server.state.username} look", photo=b"\x89PNG")
        await until(lambda: len(texts(played.got)) == 3)
    # In order within a chat.
    assert [text for text in texts(played.got) if text != "look"] == ["", "what is it?"]
    assert played.alice.private.said == group.said == []


@pytest.mark.parametrize("skew, told", [(30, ""), (200, "s ahead"), (-200, "s behind")])
async def test_a_clock_that_is_wrong_is_told(played: TelegramStage, skew: int, told: str) -> None:
    played.skew = skew
    found = await problems(played)
    assert told in found
    assert ("clock" in found) == bool(told)
