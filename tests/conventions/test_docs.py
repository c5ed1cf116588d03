"""What the pages say is true: links lead somewhere, named files and tests exist, examples do what is shown."""

import ast
import asyncio
import importlib.util
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

from bot.cli.main import app
from bot.cli.policy_cases import read_cases
from bot.commands.table import COMMANDS
from bot.config.load import load_config
from bot.core.errors import ConfigError
from bot.tools.catalogue import ARGUMENTS, NAMES
from channels.slack.setup import COMMAND as ON_SLACK
from tests.conventions.documents import (
    PAGES,
    ROOT,
    Block,
    Example,
    anchors,
    blocks,
    examples,
    files,
    links,
    named_paths,
    named_tests,
    prose,
    text_of,
)
from tests.journeys.machine import Machine

GUIDED = ("127.0.0.1:8585", '"127.0.0.1"', "127.0.0.1:8398", "127.0.0.1:8399")
"""Where the channel of the guide listens."""

CONFIGS = [pytest.param(block, id=f"{page}:{block.line}") for page in PAGES for block in blocks(page, "yaml")]
EXAMPLES = [pytest.param(example, id=str(example)) for page in PAGES for example in examples(page)]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    dead = [target for target in links(page) if not _leads(page, target)]
    assert dead == []


def _leads(page: str, target: str) -> bool:
    if target.startswith("https://"):
        return True
    path, _, anchor = target.partition("#")
    there = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
    if not there.exists() or not there.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(there.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("page", PAGES)
def test_named_files_and_tests_exist(page: str) -> None:
    here = files(page)
    assert [path for path in sorted(named_paths(page)) if path not in here and not (ROOT / path).exists()] == []
    assert [f"{path}::{name}" for path, name in sorted(named_tests(page)) if not is_test(path, name)] == []


def is_test(path: str, name: str) -> bool:
    file = ROOT / path
    if not file.is_file():
        return False
    if file.suffix == ".yaml":
        return f"- id: {name}\n" in file.read_text("utf-8")
    return name in _defined(file)


@cache
def _defined(file: Path) -> frozenset[str]:
    """Return the names of all that a file defines, which pages name again and again."""
    return frozenset(getattr(node, "name", "") for node in ast.walk(ast.parse(file.read_text("utf-8"))))


@pytest.mark.parametrize("page", PAGES)
def test_lines_fit(page: str) -> None:
    rows = prose(page).splitlines()
    assert [row for row in rows if len(row) > 120 and not row.startswith("|") and "](" not in row] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_page_knows_this_machine(page: str) -> None:
    told = text_of(page)
    # Where the API listens on every machine, unless config.yaml says otherwise, and a receiver that a reader tries.
    for everywhere in ("http://127.0.0.1:8484", "127.0.0.1:9000", '"127.0.0.1", 9000', *GUIDED):
        told = told.replace(everywhere, "")
    assert not [word for word in (str(ROOT), str(Path.home()), "localhost", "127.0.0.1") if word in told]


@pytest.mark.parametrize("block", CONFIGS)
def test_a_configuration_is_what_it_is_shown_as(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(block.text, "utf-8")
    if "cases" in block.words:
        assert read_cases(path)
    elif "refused" in block.words:
        with pytest.raises(ConfigError):
            load_config(path, {}, ARGUMENTS)
    else:
        assert load_config(path, {}, ARGUMENTS).source == path


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_command_prints_what_is_shown(example: Example, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for name, text in example.files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    if example.config is not None:
        (tmp_path / "config.yaml").write_text(example.config, "utf-8")
    for shown in example.shown:
        program, *arguments = shlex.split(shown.command)
        assert program == "lockgate"
        ended = machine.run(*arguments)
        last = shown is example.shown[-1]
        assert ended.code == (example.code if last else 0), ended.err
        if shown.output:
            assert ended.out + ended.err == shown.output


@pytest.mark.parametrize("page", PAGES)
def test_named_commands_variables_and_tasks_exist(page: str) -> None:
    text = text_of(page)
    groups = "|".join(f"{group.name} " for group in app.registered_groups)
    typed = re.findall(rf"\blockgate ((?:{groups})?[a-z]+)", _shell(page))
    assert set(typed) <= set(typed_commands())
    slashes = {command.name for command in COMMANDS} | {ON_SLACK.removeprefix("/")}
    slashes |= {name for block in blocks(page, "python") for name in re.findall(r'\bCommand\(\s*"(\w+)"', block.text)}
    assert [told for told in re.findall(r"`/([a-z]+)", prose(page)) if told not in slashes] == []
    source = "".join(path.read_text("utf-8") for path in (ROOT / "bot").rglob("*.py"))
    assert [name for name in re.findall(r"\bLOCKGATE_[A-Z_]+", text) if f'"{name}"' not in source] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert set(re.findall(r"\bpoe ([a-z-]+)", _shell(page))) <= set(project["tool"]["poe"]["tasks"])
    extras = set(re.findall(r"--extra ([a-z]+)|lockgate\[([a-z]+)\]", text))
    assert {name for pair in extras for name in pair if name} <= set(project["project"]["optional-dependencies"])


def typed_commands() -> Iterator[str]:
    groups = ((group.typer_instance, f"{group.name} ") for group in app.registered_groups)
    for typer, words in ((app, ""), *groups):
        assert typer is not None
        yield from (f"{words}{command.name}" for command in typer.registered_commands)


def _shell(page: str) -> str:
    """Return all that a page shows to be typed into a shell."""
    typed = [block.text for kind in ("sh", "console") for block in blocks(page, kind)]
    return "\n".join([*typed, *re.findall(r"`(lockgate [^`]+|poe [^`]+)`", prose(page)), ""])


def test_every_law_of_the_design_has_a_row_and_a_test_of_its_name() -> None:
    rows = [row.split("|") for row in text_of("docs/laws.md").splitlines() if row.startswith("| `")]
    assert len(rows) == 23
    for _, law, sentence, _, reached, _ in rows:
        name = law.strip().strip("`")
        assert sentence.strip().endswith(".")
        assert (
            re.search(rf"::(?:test_)?{name}", reached) or "issue 3" in reached or "none of its name yet" in reached
        ), name


def test_the_layers_name_every_module_of_the_application() -> None:
    rows = [row for row in text_of("docs/architecture.md").splitlines() if row.startswith("| ")]
    told = {word.strip("`") for row in rows for word in re.findall(r"`\w+`", row)}
    there = {path.stem for path in (ROOT / "bot").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__"} - told == set()


def test_every_command_is_told_in_the_changelog() -> None:
    told = text_of("CHANGELOG.md")
    assert [command.name for command in COMMANDS if f"`/{command.name}`" not in told] == []
    assert [name for name in NAMES if f"`{name}`" not in told] == []
    assert [name for name in typed_commands() if f"`{name}`" not in told and f"`lockgate {name}`" not in told] == []


@pytest.mark.parametrize("block", [*blocks("docs/session-tools.md", "python")], ids=lambda block: str(block.line))
def test_an_example_of_the_session_tools_holds(block: Block, tmp_path: Path) -> None:
    tests = [
        value for name, value in vars(_module(tmp_path, "example", block.text)).items() if name.startswith("test_")
    ]
    assert len(tests) == 1
    assert inspect.iscoroutinefunction(tests[0])
    asyncio.run(tests[0](tmp_path))


def _module(folder: Path, name: str, text: str) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_decision_record_says_what_it_costs() -> None:
    records = [page for page in PAGES if page.startswith("docs/adr/")]
    assert len(records) >= 7
    for page in records:
        titles = [row.removeprefix("## ") for row in prose(page).splitlines() if row.startswith("## ")]
        assert titles == ["Context", "Decision", "Consequences"], page
        assert "Status: accepted. Date: 20" in text_of(page), page


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[str](), ["README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.endswith(".md"):
            continue
        reached.add(page)
        targets = (target.partition("#")[0] for target in links(page) if not target.startswith("https://"))
        paths = ((ROOT / page).parent.joinpath(target).resolve() for target in targets if target)
        found = chain.from_iterable(path.glob("*.md") if path.is_dir() else (path,) for path in paths)
        waiting.extend(path.relative_to(ROOT).as_posix() for path in found)
    assert set(PAGES) - reached == set()


def test_the_newest_version_of_the_changelog_is_the_projects() -> None:
    headings = re.findall(r"^## (.+)$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert re.fullmatch(rf"\[{re.escape(project['version'])}\] - 20\d\d-\d\d-\d\d", headings[1])
