"""`lockgate init` as people use it: at a terminal, on a pipe, in a script, again, and given up half way."""

import asyncio
import re
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.journeys.machine import Machine
from tests.journeys.screen import Terminal
from tests.sim.act import Act
from tests.sim.provider import Provider, provider
from tests.sim.slack import slack
from tests.sim.telegram import Telegram, telegram

pytestmark = pytest.mark.anyio

TELEGRAM: Final = ("--platform", "telegram", "--token", "BOT_TOKEN")
KEY: Final = "sk-proj-4711-and-more-characters"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def at_the_code(machine: Machine, server: Telegram, level: str, *, group: str) -> Terminal:
    """Answer all questions before the code; `group` is the answer to the one about a first group."""
    typed = (*TELEGRAM, "--platform-address", f"http://127.0.0.1:{server.port}", "--classification", level)
    command = " ".join(("init", "--folder .", "--model offline", *typed))
    terminal = Terminal(machine, command=command, BOT_TOKEN=server.token)
    terminal.until("owner's by a code [yes]> ")
    terminal.type("\n")
    terminal.until("a first group [no]> ")
    terminal.type(f"{group}\n")
    return terminal


def given_up(machine: Machine, server: Telegram, played: Provider) -> None:
    """End the input at several questions, the last while the bot listens, and find nothing in the folder."""
    answers = ["", "compatible", "sim", played.openai, "", "", "telegram", "BOT_TOKEN"]
    answers += [f"http://127.0.0.1:{server.port}", "", "", "yes"]
    for number in (0, 3, 7, len(answers) - 1, len(answers)):
        typed = "".join(f"{answer}\n" for answer in answers[:number])
        ended = machine.run("init", typed=typed, BOT_TOKEN=server.token)
        assert ended.code == 2, ended
        assert ended.err.startswith("the input ended, and nothing was written\nanswer at a terminal, or "), ended
        assert files(machine.folder) == []


async def test_the_end_of_the_input_leaves_nothing_behind(machine: Machine) -> None:
    async with telegram() as server, provider() as played:
        await asyncio.to_thread(given_up, machine, server, played)


def test_answers_that_are_changed_stand_in_brackets(machine: Machine) -> None:
    model = ["", "compatible", "sim", "http://127.0.0.1:9/v1", "MODEL_KY", "INTERNAL", "change"]
    again = ["", "", "", "none", "", "keep"]
    platform = ["telegram", "BOT_TOKN", "http://127.0.0.1:9", "INTERNAL", "change", "", "", "", ""]
    ended = machine.run("init", typed="".join(f"{answer}\n" for answer in (*model, *again, *platform)))
    assert ended.code == 2, ended
    for offered in ("compatible, ollama [compatible]> ", "[sim]> ", "[http://127.0.0.1:9/v1]> ", "[MODEL_KY]> "):
        assert offered in ended.out, ended.out
    for offered in ("slack [telegram]> ", "[BOT_TOKN]> ", "[http://127.0.0.1:9]> ", "RESTRICTED [INTERNAL]> "):
        assert offered in ended.out, ended.out


async def test_ctrl_c_leaves_nothing_behind_while_the_bot_listens(machine: Machine) -> None:
    async with telegram() as server:
        eve, loop = server.user("Eve"), asyncio.get_running_loop()

        def leaves() -> None:
            terminal = at_the_code(machine, server, "PUBLIC", group="")
            try:
                terminal.until("Enter skips this")
                # The first message makes nobody the owner, and guesses are told at the terminal.
                loop.call_soon_threadsafe(eve.says, None, "let me in")
                loop.call_soon_threadsafe(eve.says, None, "22222222")
                terminal.until(f"`telegram:{eve.id}` wrote a wrong code.")
                terminal.process.send_signal(signal.SIGINT)
                terminal.until("Nothing was written.")
                assert terminal.ends() == 130
            finally:
                terminal.close()

        await asyncio.to_thread(leaves)
        assert eve.private.said == []
    assert files(machine.folder) == []


async def test_the_owner_and_their_group_at_a_terminal(machine: Machine) -> None:
    """The account with the code owns the bot, and only a group that it shows is classified, PUBLIC at first."""
    async with telegram() as server:
        ann, eve = server.user("Ann"), server.user("Eve")
        loop = asyncio.get_running_loop()
        theirs, ours = server.supergroup("Theirs", eve), server.supergroup("Harbour", ann)

        def answers() -> str:
            terminal = at_the_code(machine, server, "INTERNAL", group="y")
            try:
                shown = terminal.until("Enter skips this")
                code = re.search(r"minutes: ([2-9a-z]{8}) ", shown)
                assert code is not None
                loop.call_soon_threadsafe(eve.says, None, "hello")
                loop.call_soon_threadsafe(ann.says, None, code[1].upper())
                terminal.until(f"`telegram:{ann.id}` wrote the code", "Enter skips this")
                loop.call_soon_threadsafe(eve.says, theirs, f"@{server.state.username} hello")
                loop.call_soon_threadsafe(ann.says, ours, f"@{server.state.username} hello")
                terminal.until(f"sent to the group {ours.id}", "[PUBLIC]> ")
                terminal.type("INTERNL\n")
                terminal.until("Unknown level `INTERNL`", "[PUBLIC]> ")
                terminal.type("\n")
                terminal.until(f"The group {ours.id} is classified PUBLIC.", "ok    channel telegram", "Next:")
                assert terminal.ends() == 0
                return "\n".join(terminal.lines())
            finally:
                terminal.close()

        shown = await asyncio.to_thread(answers)
        assert server.token not in shown
        text = (machine.folder / "config.yaml").read_text("utf-8")
        assert f'accounts: ["console:owner", "telegram:{ann.id}"]' in text
        assert str(eve.id) not in text
        assert f'group-1: {{channel: telegram, chat: "{ours.id}", classification: PUBLIC}}' in text
        assert "# The platforms that `lockgate run` listens to" in text
        assert server.token not in text


async def test_slack_tells_the_account_with_its_workspace(machine: Machine) -> None:
    async with slack() as played:
        ann = played.user("ann")

        def answers() -> None:
            command = f"init --folder . --model offline --platform slack --platform-address {played.api}"
            command += " --token BOT_TOKEN --app-token APP_TOKEN --classification PUBLIC"
            tokens = {"BOT_TOKEN": played.bot.value, "APP_TOKEN": played.app_token}
            terminal = Terminal(machine, command=command, **tokens)
            try:
                terminal.until("owner's by a code [yes]> ")
                terminal.type("\n")
                terminal.until("a first group [no]> ")
                terminal.type("\n")
                code = re.search(r"minutes: ([2-9a-z]{8}) ", terminal.until("Enter skips this"))
                assert code is not None
                asyncio.run_coroutine_threadsafe(ann.says(ann.dm(), code[1]), loop).result(30)
                terminal.until(f"`slack:{played.team.id}:{ann.id}` wrote the code", "Wrote config.yaml.", "Next:")
                assert terminal.ends() == 0
            finally:
                terminal.close()

        loop = asyncio.get_running_loop()
        await asyncio.to_thread(answers)
    assert f'"slack:{played.team.id}:{ann.id}"' in (machine.folder / "config.yaml").read_text("utf-8")


async def test_a_script_writes_it_once_and_again_without_harm(machine: Machine) -> None:
    async with provider() as played, telegram() as server:

        def runs() -> None:
            given = ("--model", "compatible", "--model-name", "sim", "--model-address", played.openai)
            given += (*TELEGRAM, "--platform-address", f"http://127.0.0.1:{server.port}", "--owner", "telegram:4711")
            first = machine.run("init", "--yes", *given, BOT_TOKEN=server.token)
            assert (first.code, first.err) == (0, ""), first
            assert "it answers." in first.out
            assert "The token is valid" in first.out
            path = machine.folder / "config.yaml"
            path.write_text(path.read_text("utf-8").replace("model_steps: 20 ", "model_steps: 7 "), "utf-8")
            before = path.read_bytes()
            again = machine.run("init", "--yes", BOT_TOKEN=server.token)
            assert (again.code, again.err) == (0, ""), again
            assert "Nothing changes, config.yaml stays as it is." in again.out
            assert (path.read_bytes(), files(machine.folder)) == (before, [".bot", "config.yaml"])
            third = machine.run(
                "init", "--folder", ".", "--clearance", "INTERNAL", typed="\n" * 10, BOT_TOKEN=server.token
            )
            assert third.code == 0, third
            assert (machine.folder / "config.yaml.bak").read_bytes() == before
            assert path.read_bytes() == before.replace(b"sim: {clearance: PUBLIC}", b"sim: {clearance: INTERNAL}")

        await asyncio.to_thread(runs)


async def test_a_refusal_says_how_to_mend_it_and_writes_nothing(machine: Machine) -> None:
    async with provider(Act(status=401)) as played, telegram() as server:
        model = ("--model", "compatible", "--model-name", "sim", "--model-address", played.openai, "--key", "SIM_KEY")
        place = ("--platform-address", f"http://127.0.0.1:{server.port}")

        def fails(*arguments: str, step: str, **more: str) -> str:
            ended = machine.run("init", "--yes", *arguments, **more)
            assert ended.code == 2, ended
            assert step in ended.err.splitlines()[-1], ended.err
            assert KEY not in ended.out + ended.err
            assert files(machine.folder) == []
            return ended.err

        def runs() -> None:
            assert "does not accept the key" in fails(*model, step="SIM_KEY, then run `lockgate init`", SIM_KEY=KEY)
            assert "needs a key" in fails(*model, step="set SIM_KEY in the environment")
            assert "nothing listens there" in fails(
                *("--model", "ollama", "--model-address", "http://127.0.0.1:9/v1"), step="start the server, or mend"
            )
            assert "is empty" in fails(*TELEGRAM, *place, step="put the token into BOT_TOKEN, then run `lockgate init`")
            told = fails(*TELEGRAM, *place, step="type `/token` at @BotFather", BOT_TOKEN="1:no")  # noqa: S106 - no token
            assert "does not accept the bot's token" in told
            assert KEY not in fails("--model", "openai", "--key", KEY, step="--help")
            assert "that is not an account there" in fails(
                *TELEGRAM, *place, "--owner", "4711", step="--help", BOT_TOKEN=server.token
            )
            assert "choose one of" in fails("--model", "none", step="--help")
            assert "did you mean `telegram`?" in fails("--platform", "telegrm", step="--help")

        await asyncio.to_thread(runs)


async def test_a_file_that_is_not_in_order_is_left_alone(machine: Machine) -> None:
    path = machine.folder / "config.yaml"
    path.write_text("limits: {model_steps: many}\n")
    ended = await asyncio.to_thread(lambda: machine.run("init", "--yes"))
    assert (ended.code, "config.yaml:1: " in ended.err) == (2, True), ended
    assert files(machine.folder) == ["config.yaml"]


async def test_a_terminal_in_an_empty_folder_names_it(machine: Machine) -> None:
    def talks() -> None:
        for term, offered in (("xterm", True), ("dumb", True), ("xterm", False)):
            if not offered:
                (machine.folder / "config.yaml").write_text("")
            terminal = Terminal(machine, term)
            try:
                shown = terminal.until("lockgate [PUBLIC]> ")
                assert ("There is no config.yaml here: `lockgate init` sets up" in shown) is offered
            finally:
                terminal.close()

    await asyncio.to_thread(talks)
    (machine.folder / "config.yaml").unlink()
    assert "lockgate init" not in machine.chat("hello").out
