"""The table of commands: what stands in it, and what is told of what does not."""

import ast
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import bot
from bot.access.authorize import Caller, Ingress
from bot.commands import table
from policy.labels import PUBLIC
from policy.request import Role
from tests.bot.commands.kit import context
from tests.harness import running

pytestmark = pytest.mark.anyio


def test_every_row_is_found_by_its_name_and_begins_its_usage_with_it() -> None:
    for command in table.COMMANDS:
        assert table.BUILT_IN.find(command.name) is command
        assert table.BUILT_IN.find(f"/{command.name.upper()}") is command
        assert command.usage.split()[0] == f"/{command.name}"
        assert table.BUILT_IN.needed(f"/{command.name} x") is command.needs
    assert len({command.name for command in table.COMMANDS}) == len(table.COMMANDS)
    assert table.BUILT_IN.needed("/nothing") is Role.MEMBER


def _on_buttons(path: Path) -> Iterator[list[str]]:
    """Yield the commands that functions of a file may put on their buttons, each in all ways its gaps may be filled."""
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = tuple(ast.walk(function))
        if not any(isinstance(node, ast.Call) and ast.unparse(node.func) == "Button" for node in nodes):
            continue
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
                if text.startswith("/"):
                    yield [text.format(*gaps) for gaps in product(("room:team", "PUBLIC"), repeat=text.count("{}"))]


def test_what_stands_on_a_button_may_be_pressed() -> None:
    found = [lines for path in Path(bot.__path__[0]).rglob("*.py") for lines in _on_buttons(path)]
    assert {lines[0].split()[0] for lines in found} == {
        *("/answer", "/approve", "/background", "/block", "/classify", "/continue", "/delete", "/deny", "/held"),
        *("/runs", "/schedule", "/skills", "/workflow"),
    }
    assert [lines for lines in found if not any(map(table.may_be_pressed, lines))] == []


@pytest.mark.parametrize(
    "typed,told",
    [
        ("/tiant", "Unknown command `/tiant`. Did you mean `/taint`?"),
        ("/zzzz", "Unknown command `/zzzz`. `/help` lists them."),
        ("/", "Unknown command `/`. `/help` lists them."),
        (f"/{'a' * 100_000}", f"Unknown command `/{'a' * 40}`. `/help` lists them."),
    ],
)
async def test_an_unknown_command_is_told_with_the_nearest(tmp_path: Path, typed: str, told: str) -> None:
    async with running(tmp_path, serve=False) as person:
        assert table.BUILT_IN.unknown(typed, context(person)) == told


async def test_help_lists_what_the_caller_may_use(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        told = await person.say("/help")
        # `/release` is offered to those alone who hold that right.
        assert {command.name for command in table.COMMANDS if f"/{command.name}: " not in told} == {"release"}
        assert "help COMMAND" in told
        assert "/taint [raise LABEL]" in await person.say("/help /taint")
        assert "Unknown command `/x`" in await person.say("/help x")
        assert "Only a console can be left." in await person.say("/quit")


async def test_a_command_above_the_callers_role_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        guest = Caller("gus", Role.GUEST, PUBLIC, Ingress.COMMAND)
        assert (await person.app.commands.answer(context(person, guest), "/taint")).text.startswith(
            "Unknown command `/taint`"
        )


@pytest.mark.parametrize(
    "command", ["/whoami x", "/status x y", "/stop x", "/why x", "/approvals x y", "/approve", "/deny a b"]
)
async def test_arguments_that_do_not_fit_give_the_usage(tmp_path: Path, command: str) -> None:
    async with running(tmp_path, serve=False) as person:
        usage = table.BUILT_IN.find(command.split(maxsplit=1)[0])
        assert usage is not None
        assert f"Write it as `{usage.usage}`" in await person.say(command)
