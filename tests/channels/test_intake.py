"""What platforms tell is taken in per chat and in order, parked where it cannot be, and confirmed when it is kept."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.intake import MOST, Intake, Json, Kept
from channels.port import VaultError
from tests.channels.contract import Kept as Vault
from tests.channels.contract import Leases, until

pytestmark = pytest.mark.anyio


class Application:
    """Keeps what it is told, but of chats that are `broken`, and what is `poisoned`."""

    def __init__(self) -> None:
        self.got: list[tuple[str, int]] = []
        self.said: list[tuple[str, int]] = []
        self.broken = set[str]()
        self.poisoned = set[int]()
        self.tried: list[float] = []
        self.slow: dict[str, anyio.Event] = {}
        self.talkative: dict[str, anyio.Event] = {}

    async def work(self, told: Json, kept: Kept) -> None:
        self.tried.append(anyio.current_time())
        chat, number = str(told["chat"]), int(told["n"])
        if chat in self.broken or number in self.poisoned:
            raise ValueError("no record of this program")
        if chat in self.slow:
            await self.slow[chat].wait()
        self.got.append((chat, number))
        kept()
        if chat in self.talkative:
            await self.talkative[chat].wait()
        self.said.append((chat, number))

    def of(self, chat: str) -> list[int]:
        return [number for one, number in self.got if one == chat]


def made(app: Application, vault: Vault, patience: float | None = None) -> Intake:
    return Intake(
        vault,
        "bot/parked/",
        app.work,
        beside=lambda told: bool(told.get("command")),
        pause=0.01,
        longest=0.05,
        patience=patience,
    )


@asynccontextmanager
async def taking(app: Application, vault: Vault, patience: float | None = 0.05) -> AsyncGenerator[Intake]:
    """Take in as the one process that polls."""
    intake = made(app, vault, patience)
    async with intake.running():
        await intake.adopt(lambda: True)
        yield intake


async def told(intake: Intake, chat: str, number: int, **more: object) -> None:
    with anyio.fail_after(60):
        await intake.take(chat, f"{number:05d}", {"chat": chat, "n": number, **more})


async def test_what_a_chat_tells_is_kept_in_its_order_and_nothing_is_parked() -> None:
    app, vault = Application(), Vault()
    async with taking(app, vault) as intake, anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(told, intake, f"c{number % 3}", number)
    assert [app.of(f"c{chat}") for chat in range(3)] == [list(range(chat, 40, 3)) for chat in range(3)]
    assert vault.values == {}


async def test_a_chat_that_is_refused_is_parked_and_keeps_nobody_waiting() -> None:
    app, vault = Application(), Vault()
    app.broken = {"damaged"}
    async with taking(app, vault) as intake:
        for number in range(3):
            await told(intake, "damaged", number)
        await told(intake, "other", 9)
        assert app.got == [("other", 9)]
        assert len(vault.parked) == 3
        (trouble,) = await intake.troubles()
        assert (trouble.problem, trouble.sealed) == ("3 updates of 1 chats wait, as they could not be taken in", True)
        app.broken = set()
        await until(lambda: len(app.of("damaged")) == 3)
        await until(lambda: not vault.values)
        assert await intake.troubles() == ()
    assert app.of("damaged") == [0, 1, 2]


async def test_what_is_refused_is_tried_less_and_less_often() -> None:
    app = Application()
    app.broken = {"damaged"}
    intake = Intake(Vault(), "bot/parked/", app.work, beside=lambda _: False, pause=0.02, longest=60, patience=0.05)
    async with intake.running():
        await intake.adopt(lambda: True)
        await told(intake, "damaged", 1)
        await until(lambda: len(app.tried) > 5)
    waits = [after - before for before, after in pairwise(app.tried)]
    assert all(wait > 0.019 * 2**number for number, wait in enumerate(waits))


async def test_it_is_logged_once_that_a_chat_is_parked(caplog: pytest.LogCaptureFixture) -> None:
    app = Application()
    app.broken = {"damaged"}
    async with taking(app, Vault()) as intake:
        await told(intake, "damaged", 1)
        await told(intake, "damaged", 2)
        await until(lambda: len(app.tried) > 4)
    assert [(record.getMessage(), vars(record)["subject"]) for record in caplog.records] == [
        ("a chat is parked", "damaged")
    ]


async def test_what_was_parked_is_taken_in_by_the_next_process_before_what_comes_then() -> None:
    app, vault = Application(), Vault()
    app.broken = {"damaged/chat!"}
    async with taking(app, vault) as intake:
        for number in range(3):
            await told(intake, "damaged/chat!", number)
    app.broken = set()
    async with taking(app, vault) as intake:
        await told(intake, "damaged/chat!", 3)
        await until(lambda: not vault.values)
    assert app.of("damaged/chat!") == [0, 1, 2, 3]


async def test_what_takes_long_is_parked_meanwhile_and_taken_in_once() -> None:
    app, vault = Application(), Vault()
    app.slow["slow"] = anyio.Event()
    async with taking(app, vault) as intake:
        await told(intake, "slow", 1)
        await told(intake, "slow", 2)
        await told(intake, "other", 3)
        assert (len(vault.parked), app.got) == (2, [("other", 3)])
        app.slow["slow"].set()
        await until(lambda: not vault.values)
    assert (app.of("slow"), len(app.tried)) == ([1, 2], 3)


async def test_what_is_left_to_say_keeps_nobody_waiting() -> None:
    app, vault = Application(), Vault()
    app.talkative["chat"] = anyio.Event()
    async with taking(app, vault) as intake:
        for number in range(5):
            await told(intake, "chat", number)
        assert (app.of("chat"), app.said, vault.values) == ([0, 1, 2, 3, 4], [], {})
        app.talkative["chat"].set()
        await until(lambda: len(app.said) == 5)


async def test_answers_of_one_chat_are_bounded_and_another_chat_does_not_notice() -> None:
    app, vault = Application(), Vault()
    app.talkative["chat"] = anyio.Event()
    async with taking(app, vault) as intake:
        for number in range(30):
            await told(intake, "chat", number)
        await told(intake, "other", 99)
        assert (len(app.of("chat")), app.of("other")) == (16, [99])
        app.talkative["chat"].set()
        await until(lambda: len(app.of("chat")) == 30)


async def test_an_answer_that_fails_is_logged_and_told_no_second_time(caplog: pytest.LogCaptureFixture) -> None:
    async def work(_told: Json, kept: Kept) -> None:
        kept()
        raise OSError("nobody is there")

    intake = Intake(Vault(), "bot/parked/", work, beside=lambda _: False, pause=0.01, longest=0.05)
    async with intake.running():
        await told(intake, "chat", 1)
        await until(lambda: caplog.records)
    assert "could not be answered" in caplog.text


async def test_what_can_be_neither_kept_nor_parked_is_told_again() -> None:
    app, vault = Application(), Vault()
    app.broken, vault.full = {"damaged"}, True
    async with taking(app, vault, patience=None) as intake:
        for _ in range(2):
            with pytest.raises(ValueError, match="no record"):
                await told(intake, "damaged", 1)
        vault.full = False
        await told(intake, "damaged", 1)
        vault.full = True
        # Behind what is parked nothing is taken in, and it is not let go either.
        with pytest.raises(VaultError):
            await told(intake, "damaged", 2)
        vault.full, app.broken = False, set()
        await until(lambda: not vault.values)
        await told(intake, "damaged", 2)
    assert app.of("damaged") == [1, 2]


async def test_a_command_goes_past_what_is_stuck() -> None:
    app, vault = Application(), Vault()
    app.poisoned = {1}
    async with taking(app, vault) as intake:
        await told(intake, "chat", 1)
        await told(intake, "chat", 2, command=True)
        assert app.of("chat") == [2]


async def test_one_update_that_nobody_can_take_in_does_not_silence_its_chat() -> None:
    app, vault = Application(), Vault()
    app.poisoned = {1}
    async with taking(app, vault) as intake:
        for number in range(4):
            await told(intake, "chat", number)
        await until(lambda: len(app.of("chat")) == 3)
        assert (app.of("chat"), len(vault.parked)) == ([0, 2, 3], 1)
        await told(intake, "chat", 4)
        assert app.of("chat") == [0, 2, 3, 4]
        app.poisoned = set()
        await until(lambda: not vault.values)
    assert app.of("chat") == [0, 2, 3, 4, 1]


async def test_what_a_platform_tells_again_while_it_waits_is_taken_in_once() -> None:
    app, vault = Application(), Vault()
    app.broken = {"damaged"}
    async with taking(app, vault) as intake:
        for _ in range(3):
            await told(intake, "damaged", 1)
        assert len(vault.parked) == 1
        app.broken = set()
        await until(lambda: not vault.values)
    assert app.of("damaged") == [1]


async def test_what_is_parked_of_a_chat_is_bounded() -> None:
    app, vault = Application(), Vault()
    app.broken = {"damaged"}
    async with taking(app, vault) as intake:
        for number in range(MOST + 3):
            await told(intake, "damaged", number)
        assert len(vault.parked) == MOST
        assert "3 updates were let go" in str(await intake.troubles())


async def test_of_two_processes_one_takes_in_what_either_parked() -> None:
    one, two, vault, leases = Application(), Application(), Vault(), Leases()
    one.broken = two.broken = {"damaged"}
    first, second = made(one, vault), made(two, vault)
    async with first.running(leases), second.running(leases):
        await until(lambda: len(leases.asked) == 2)
        await told(first, "damaged", 1)
        await told(second, "damaged", 2)
        assert len(vault.parked) == 2
        one.broken, two.broken = set(), set()
        await until(lambda: not vault.values)
    assert sorted(one.of("damaged") + two.of("damaged")) == [1, 2]
    assert [] in (one.of("damaged"), two.of("damaged"))


async def test_a_right_that_is_lost_leaves_what_is_parked_to_who_has_it() -> None:
    app, vault, mine = Application(), Vault(), [True]
    app.broken = {"damaged"}
    intake = made(app, vault, 0.05)
    async with intake.running():
        await intake.adopt(lambda: mine[0])
        await told(intake, "damaged", 1)
        mine[0] = False
        await anyio.sleep(0.1)
        app.broken = set()
        await anyio.sleep(0.1)
    assert (app.got, len(vault.parked)) == ([], 1)


async def test_a_vault_that_is_away_is_waited_for() -> None:
    app, vault = Application(), Vault()
    vault.broken = True
    intake = made(app, vault)
    async with intake.running(Leases()):
        await told(intake, "chat", 1)
        assert await intake.troubles() == ()
        vault.broken = False
        vault.values["bot/parked/chat/00002"] = b'{"chat": "chat", "n": 2}'
        await until(lambda: app.of("chat") == [1, 2])


async def test_an_error_of_what_listens_is_no_error_of_a_group() -> None:
    with pytest.raises(OSError, match="port"):
        async with made(Application(), Vault()).running():
            raise OSError("the port is taken")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["tell", "break", "mend", "fill", "empty"])), max_size=30))
def test_whatever_breaks_all_is_taken_in_once_and_in_the_order_of_its_chat(steps: list[tuple[int, str]]) -> None:
    asyncio.run(_all_is_taken_in(steps))


async def _all_is_taken_in(steps: list[tuple[int, str]]) -> None:
    app, vault = Application(), Vault()
    numbers: dict[str, list[int]] = {f"c{chat}": [] for chat in range(3)}
    async with taking(app, vault, patience=0.01) as intake:
        for number, (place, step) in enumerate(steps):
            chat = f"c{place}"
            match step:
                case "tell":
                    numbers[chat].append(number)
                    await _until_kept(intake, app, vault, chat, number)
                case "break":
                    app.broken.add(chat)
                case "mend":
                    app.broken.discard(chat)
                case _:
                    vault.full = step == "fill"
        app.broken, vault.full = set(), False
        await until(lambda: not vault.values)
        await until(lambda: len(app.got) == sum(map(len, numbers.values())))
    assert {chat: app.of(chat) for chat in numbers} == numbers


async def _until_kept(intake: Intake, app: Application, vault: Vault, chat: str, number: int) -> None:
    """Tell something until it is kept, as a platform does; the store that is full gets room meanwhile."""
    try:
        await told(intake, chat, number)
    except (ValueError, VaultError):
        vault.full = False
        await told(intake, chat, number)
    assert number in app.of(chat) or vault.values
