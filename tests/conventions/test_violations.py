"""Deliberate violations of every contract, every house rule and every banned call are caught.

Each test copies the source, plants one violation and runs the checker on the copy. What it reports must name the
planted module, so that an unrelated breach in the tree cannot pass for the planted one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conventions.data import PACKAGES, RESERVED, SITES
from tests.conventions.rules import RULES, findings
from tests.conventions.shape import HALL, ROOM

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def contracts() -> ConfigParser:
    parser = ConfigParser()
    parser.read(ROOT / ".importlinter", "utf-8")
    return parser


def listed(contract: str, option: str) -> list[str]:
    return contracts()[f"importlinter:contract:{contract}"][option].split()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    shutil.copytree(ROOT / "tests/conventions", tmp_path / "tests/conventions")
    for file in (".importlinter", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    return tmp_path


@pytest.fixture
def sketch(tmp_path: Path) -> Path:
    """A copy of what the house rules name, and of nothing else: a rule looks at every module anew."""
    named = [*(each.name.rpartition(".")[0] for each in RESERVED), *(site.module for site in SITES)]
    for module in (*named, "bot.core.errors", "bot.sessions.models", "bot.tools.base", "channels.console"):
        source = ROOT.joinpath(*module.split("."))
        for path in source.glob("*.py") if source.is_dir() else [source.with_suffix(".py")]:
            copy = tmp_path / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return tmp_path


def plant(tree: Path, module: str, code: str) -> None:
    """Append code to a module; a module, package or `__init__` that is missing is made."""
    path = tree.joinpath(*module.split("."))
    for parent in reversed(path.relative_to(tree).parents[:-1]):
        (tree / parent).mkdir(exist_ok=True)
        (tree / parent / "__init__.py").touch()
    file_path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    with file_path.open("a", encoding="utf-8") as file:
        file.write(f"\n{code}\n")


@dataclass(frozen=True)
class Import:
    """A violation of a contract: an import that it forbids; `also` plants what makes it one."""

    contract: str
    importer: str
    imported: str
    also: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.contract}: {self.importer} imports {self.imported}"


def reserved() -> Iterator[Import]:
    """One violation for every name of every `reserved` contract."""
    parser = contracts()
    for section in parser.sections():
        contract = section.rpartition(":")[2]
        if parser[section].get("type") != "reserved":
            continue
        outsider = (parser[section].get("within") or "bot").split()[0]
        for name in listed(contract, "modules"):
            module = name.strip("()").replace("*", "planted")
            yield Import(contract, "bot.core.errors" if outsider == "bot" else f"{outsider}.errors", module)


FORBIDDEN = [
    Import("policy-pure", "policy.labels", name) for name in listed("policy-pure", "forbidden_modules") if name != "#"
]
HAND_WRITTEN = [
    *(
        Import("channels-know-nobody", "channels.port", name)
        for name in ("bot.core.errors", "policy.labels", "redis.asyncio")
    ),
    Import("channels-layers", "channels.console", "channels.telegram.updates"),
    Import("channels-layers", "channels.telegram.updates", "channels.slack.events"),
    Import("channels-layers", "channels.port", "channels.console"),
    Import("channels-console", "bot.delivery.outbox", "channels.console"),
    Import("channels-adapters", "bot.cli.chat", "channels.telegram.adapter"),
    Import("policy-engine", "bot.app.app", "policy.engine"),
    Import("policy-engine", "bot.worker.worker", "policy.engine"),
    Import("policy-engine", "bot.gate.gate", "policy.engine"),
    Import("policy-pydantic", "policy.rules", "pydantic"),
    Import("policy-patterns", "policy.rules", "re2"),
    Import("policy-conditions", "policy.rules", "cel"),
    Import("policy-validators", "policy.redaction.redactor", "stdnum.us.ssn"),
    Import("policy-validators", "bot.tools.planted", "phonenumbers"),
    Import("bot-store", "bot.worker.worker", "bot.store.planted"),
    Import("bot-store", "bot.cli.chat", "bot.store"),
    Import("bot-commands", "bot.cli.policy", "bot.commands.decisions"),
    Import("redis", "bot.app.app", "redis.asyncio"),
    *(
        Import("client-knows-nobody", "lockgate.errors", name)
        for name in ("bot.core", "channels.port", "policy.labels")
    ),
    *(
        Import("client-unknown", name, "lockgate.client")
        for name in ("bot.core.errors", "channels.port", "policy.labels")
    ),
    Import("bot-layers", "bot.core.errors", "bot.app.app"),
    Import("bot-layers", "bot.tools.planted", "bot.gate"),
    Import("bot-layers", "bot.gate", "bot.agent.planted"),
    Import("bot-layers", "bot.agent.planted", "bot.worker.worker"),
    Import("bot-layers", "bot.sessions.models", "bot.access.labelling"),
    Import("bot-layers", "bot.worker.worker", "bot.app.app"),
    Import("no-cycles", "bot.turn", "bot.failures", (("bot.failures", "import bot.turn"),)),
    Import("no-cycles", "policy.errors", "policy.labels", (("policy.labels", "import policy.errors"),)),
    Import("no-cycles", "channels.messages", "channels.port", (("channels.port", "import channels.messages"),)),
]


def lint_imports(tree: Path, contract: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy; the copy comes first on the path, before the installed project."""
    return subprocess.run(
        [BIN / "lint-imports", "--no-logo", "--no-cache", "--contract", contract],
        cwd=tree,
        env={**os.environ, "COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def broken(tree: Path, contract: str) -> str:
    """Return what import-linter says about a contract that is broken, "" if it is kept."""
    result = lint_imports(tree, contract)
    assert result.returncode in {0, 1}, result.stderr
    assert "Contracts:" in result.stdout, result.stdout + result.stderr
    return result.stdout.partition("Broken contracts")[2]


def violations() -> list[Import]:
    return list(dict.fromkeys([*reserved(), *HAND_WRITTEN]))


@pytest.mark.parametrize("contract", sorted({violation.contract for violation in violations()}))
def test_a_forbidden_import_is_caught(tree: Path, contract: str) -> None:
    planted = [violation for violation in violations() if violation.contract == contract]
    for violation in planted:
        for module in {violation.importer, violation.imported, "bot.store.planted"}:
            if module.split(".")[0] in PACKAGES:
                plant(tree, module, "")
        for module, code in violation.also:
            plant(tree, module, code)
    before = broken(tree, contract) if any(violation.also for violation in planted) else ""
    for violation in planted:
        plant(tree, violation.importer, f"import {violation.imported}")
    told = broken(tree, contract)
    assert [str(violation) for violation in planted if not named(told, violation)] == []
    assert told != before


def named(told: str, violation: Import) -> bool:
    """Say whether a violation is among what import-linter tells: both of its modules in one line."""
    top = violation.imported if violation.imported.split(".")[0] in PACKAGES else violation.imported.split(".")[0]
    both = [violation.importer, top]
    if violation.contract == "no-cycles":
        both = [f".{module.partition('.')[2]}" for module in both]
    return any(all(module in line for module in both) for line in told.splitlines())


def test_every_impure_module_is_caught_in_the_core(tree: Path) -> None:
    for violation in FORBIDDEN:
        plant(tree, violation.importer, f"import {violation.imported}")
    told = broken(tree, "policy-pure")
    assert [each.imported for each in FORBIDDEN if f"policy.labels -> {each.imported} " not in told] == []


@pytest.mark.parametrize("package", ["bot", "channels"])
def test_a_module_outside_the_layers_is_caught(tree: Path, package: str) -> None:
    plant(tree, f"{package}.planted", "")
    assert f"- {package}.planted" in broken(tree, f"{package}-layers")


def test_every_contract_has_a_violation() -> None:
    sections = {section.rpartition(":")[2] for section in contracts().sections()[1:]}
    assert {violation.contract for violation in [*violations(), *FORBIDDEN]} == sections


@dataclass(frozen=True)
class Breach:
    """A violation of a house rule: code for a module."""

    rule: str
    module: str
    code: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.code.splitlines()[-1]}"


LABEL = "from policy.labels import Label, Level"
BREACHES = [
    Breach("empty_package", "policy", "from policy.engine import Engine"),
    Breach("empty_package", "channels", "from channels.console import Console"),
    Breach("empty_package", "bot.tools", "def __getattr__(name): ..."),
    Breach("named_by_owner", "bot.planted", "from bot.sessions.models import Label"),
    Breach("named_by_owner", "bot.planted", "from bot.sessions import models\nmodels.Label"),
    Breach("reserved_names", "bot.planted", f"{LABEL}\nlabel = Label(Level.PUBLIC)"),
    Breach("reserved_names", "bot.planted", "import policy.labels\npolicy.labels.Label(0)"),
    Breach("reserved_names", "bot.planted", "from policy import labels as l\nl.Label(0)"),
    Breach("reserved_names", "bot.planted", f"{LABEL} as L\nMake = Label"),
    Breach("reserved_names", "bot.planted", f"{LABEL}\nlist(map(Label, [0]))"),
    Breach("reserved_names", "bot.planted", f"{LABEL}\nclass Mine(Label): ..."),
    Breach("reserved_names", "bot.planted", f"{LABEL}\nLabel.__new__(Label)"),
    Breach("reserved_names", "channels.planted", f"{LABEL}\nx = [Label]\n"),
    Breach("reserved_names", "bot.planted", "from dataclasses import replace\nreplace(taint, level=0)"),
    Breach("reserved_names", "bot.agent.planted", "from policy.labels import parse\nparse(answer)"),
    Breach("sizes", "bot.planted", "\n" * 600),
    Breach("sizes", "policy.planted", "def long():\n" + "    x = 1\n" * 50),
    Breach("structured_concurrency", "bot.planted", "import asyncio\nasyncio.create_task(x())"),
    Breach("structured_concurrency", "bot.planted", "from asyncio import create_task as go\ngo(x())"),
    Breach("structured_concurrency", "bot.planted", "import asyncio\nasyncio.get_running_loop().create_task(x())"),
    Breach("structured_concurrency", "channels.planted", "import asyncio\nasyncio.gather(x(), y())"),
    Breach("structured_concurrency", "bot.planted", "from time import sleep\nsleep(1)"),
    Breach("no_assert", "bot.planted", "assert x"),
    Breach("no_globals", "bot.planted", "CACHE = {}"),
    Breach("no_globals", "policy.planted", "seen: set[str] = set()"),
    Breach("no_globals", "channels.planted", "from collections import deque\nwaiting = deque()"),
    Breach("no_globals", "bot.planted", "def change():\n    global limit\n    limit = 1"),
    Breach("reserved_names", "bot.planted", f"{LABEL}\nmake = {{'a': Label}}"),
    Breach("pure_policy", "policy.planted", "import webbrowser"),
    Breach("pure_policy", "policy.planted", "open('x')"),
    Breach("pure_policy", "policy.planted", "async def wait(): ..."),
    Breach("one_meaning", "channels.planted", "class Console: ..."),
    Breach("shallow", "bot.planted", "class A: ...\nclass B(A): ...\nclass C(B): ...\nclass D(C): ..."),
    Breach("shallow", "bot.planted", "class A: ...\nclass B: ...\nclass C: ...\nclass D(A, B, C): ..."),
    Breach("named_arguments", "bot.planted", "def f(a, b, c, d, e): ..."),
    Breach("named_arguments", "bot.planted", "class A:\n    def f(self, a, b, c, d, e): ..."),
    Breach("named_arguments", "bot.planted", "from typing import Any\ndef f(**change: Any): ..."),
    Breach("typed_bodies", "bot.planted", "event.body['text']"),
    Breach("typed_bodies", "bot.planted", "item.body.get('origin')"),
    Breach("typed_bodies", "bot.agent.planted", "'origin' in self.event.body"),
]


@pytest.mark.parametrize("breach", BREACHES, ids=str)
def test_a_breach_of_a_house_rule_is_caught(sketch: Path, breach: Breach) -> None:
    plant(sketch, breach.module, "")
    before = findings(sketch, breach.rule)
    plant(sketch, breach.module, breach.code)
    path = breach.module.replace(".", "/")
    new = [finding for finding in findings(sketch, breach.rule) if finding not in before]
    assert any(finding.path.startswith(path) for finding in new)


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.call)
def test_a_second_way_in_or_out_is_caught(sketch: Path, site: object) -> None:
    named = next(each for each in SITES if each is site)
    assert findings(sketch, "one_site") == []
    plant(sketch, "bot.planted", f"anything.{named.call}(x)")
    assert {finding.path for finding in findings(sketch, "one_site")} == {"bot/planted.py"}
    plant(sketch, f"{named.module}", f"thing.{named.call}(x)\nthing.{named.call}(y)")
    home = f"{named.module.replace('.', '/')}"
    assert any(finding.path.startswith(home) for finding in findings(sketch, "one_site"))


@pytest.mark.parametrize("folder, most", [("bot", HALL), ("bot.tools", ROOM), ("policy.document", ROOM)])
def test_one_file_more_than_people_look_over_is_caught(sketch: Path, folder: str, most: int) -> None:
    for number in range(most - len([*sketch.joinpath(*folder.split(".")).glob("*.py")])):
        plant(sketch, f"{folder}.planted_{number}", "")
    before = findings(sketch, "rooms")
    plant(sketch, f"{folder}.planted", "")
    assert len(findings(sketch, "rooms")) == len(before) + 1


def test_every_rule_and_reserved_name_has_a_breach() -> None:
    assert {breach.rule for breach in BREACHES} | {"one_site", "rooms"} == set(RULES)
    for reserved_name in RESERVED:
        assert any(reserved_name.name.rpartition(".")[2] in breach.code for breach in BREACHES)


def test_harmless_code_is_no_breach(sketch: Path) -> None:
    plant(sketch, "bot.core.errors", "")
    before = findings(sketch)
    plant(
        sketch,
        "bot.core.errors",
        "from collections.abc import Callable, Mapping\nimport asyncio\nfrom policy.labels import Label\n"
        "KNOWN: Mapping[str, int] = {'a': 1}\nNAMES = frozenset({'a'})\n"
        "Test = Callable[[Label], bool]\n"
        "def admits(label: Label, test: Callable[[Label], bool]) -> bool:\n    return isinstance(label, Label)\n"
        "async def work() -> None:\n    async with asyncio.TaskGroup() as tasks:\n        tasks.create_task(work())\n"
        "asyncio.run(work())",
    )
    assert findings(sketch) == before


BANNED = [
    "import time",
    "from time import monotonic",
    "import uuid",
    "import random",
    "import secrets",
    "from datetime import UTC, datetime\n\nNOW = datetime.now(UTC)",
    "import os\n\nX = os.urandom(4)",
    "import asyncio\n\nX = asyncio.gather()",
    "from unittest import mock",
    "import pickle",
]


@pytest.mark.parametrize("code", BANNED)
def test_a_banned_call_is_caught(tmp_path: Path, code: str) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot/planted.py").write_text(f'"""Planted."""\n\n{code}\n', "utf-8")
    result = subprocess.run(
        [BIN / "ruff", "check", "--no-cache", "--select", "TID251", "bot/planted.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 1
    assert "TID251" in result.stdout
