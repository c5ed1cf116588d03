"""`poe quick` looks at what changed and runs the tests that are about it."""

import subprocess
from pathlib import Path

import pytest

from tests.quick.choice import about, changed, imported, module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a module, two tests of which one imports it, and a commit."""
    files = {
        "bot/gate.py": "",
        "bot/gone.py": "",
        "tests/bot/test_gate.py": "from bot.gate import x\n",
        "tests/bot/test_other.py": "from bot import other\n",
        "tests/chaos/test_crash.py": "import bot.gate\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_what_changed_is_what_differs_and_what_is_new_and_nothing_deleted(checkout: Path) -> None:
    assert changed(checkout, "HEAD") == []
    (checkout / "bot" / "gate.py").write_text("x = 1\n")
    (checkout / "a file.md").write_text("new\n")
    (checkout / "bot" / "gone.py").unlink()
    assert changed(checkout, "HEAD") == [Path("a file.md"), Path("bot/gate.py")]


def test_the_tests_of_a_module_import_it(checkout: Path) -> None:
    imports = imported(checkout)
    assert set(imports) == {Path("tests/bot/test_gate.py"), Path("tests/bot/test_other.py")}
    assert about([Path("bot/gate.py")], imports) == [Path("tests/bot/test_gate.py")]
    assert about([Path("bot/other.py")], imports) == [Path("tests/bot/test_other.py")]
    assert about([Path("tests/bot/test_other.py"), Path("README.md")], imports) == [Path("tests/bot/test_other.py")]
    assert about([Path("bot/gone.py")], imports) == []


def test_of_many_tests_those_run_that_are_most_about_a_module() -> None:
    wide = {Path(f"tests/test_{n}.py"): {"bot.a", *map(str, range(n))} for n in range(1, 30)}
    own = {Path("tests/test_a.py"): {"bot.a", *map(str, range(99))}}
    chosen = about([Path("bot/a.py")], {**wide, **own})
    assert Path("tests/test_a.py") in chosen
    assert set(chosen) - {Path("tests/test_a.py")} == {Path(f"tests/test_{n}.py") for n in range(1, 6)}


@pytest.mark.parametrize("file,name", [("bot/gate/calls.py", "bot.gate.calls"), ("bot/gate/__init__.py", "bot.gate")])
def test_a_file_is_imported_by_its_place(file: str, name: str) -> None:
    assert module(Path(file)) == name
