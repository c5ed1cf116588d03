"""The command of `poe docs`, in a small repository: it builds a site, and fails on a link that leads nowhere."""

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.conventions.documents import PAGES, ROOT
from tests.site.foreign import foreign
from tests.site.navigation import read

NAVIGATION: Final = """
[[reader]]
name = "Start"
pages = ["README.md", "docs/laws.md"]

[[reader]]
name = "Decisions"
pages = ["docs/decisions.md"]

[folders]
"docs/adr" = "docs/decisions.md"
"""
README: Final = """# Lockgate

[A law](docs/laws.md#no_write_down), [decisions](docs/adr), [the policy](policy) and
[its file](policy/__init__.py), [elsewhere](https://example.org).

```transcript
> Is the quay office open today?
```
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of four pages, with the configuration of the real one."""
    (tmp_path / "docs/adr").mkdir(parents=True)
    shutil.copytree(ROOT / "docs/site", tmp_path / "docs/site")
    (tmp_path / "docs/site/navigation.toml").write_text(NAVIGATION, "utf-8")
    (tmp_path / "README.md").write_text(README, "utf-8")
    (tmp_path / "docs/laws.md").write_text("# Laws\n\n## `no_write_down`\n\n[Start](../README.md)\n")
    (tmp_path / "docs/decisions.md").write_text("# Decisions\n", "utf-8")
    (tmp_path / "docs/adr/0001-python.md").write_text("# Python\n", "utf-8")
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy/__init__.py").write_text('"""The pure <core>."""\n', "utf-8")
    return tmp_path


def built(repository: Path) -> subprocess.CompletedProcess[str]:
    """Run the first command of `poe docs` there."""
    tasks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["poe"]["tasks"]
    program, *arguments = shlex.split(tasks["docs"]["sequence"][0]["cmd"])
    assert program == "python"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)


def test_a_site_is_built_that_loads_nothing_from_elsewhere(repository: Path) -> None:
    ended = built(repository)
    assert (ended.returncode, ended.stderr) == (0, "")
    site = repository / ".site/html"
    start = (site / "README.html").read_text("utf-8")
    for link in (
        'href="docs/laws.html#no-write-down"',  # docutils' name of the anchor `no_write_down`
        'href="docs/decisions.html"',
        'href="code/policy.html"',
        'href="code/policy/__init__.py.html"',
    ):
        assert link in start
    laws = (site / "docs/laws.html").read_text("utf-8")
    assert 'id="no-write-down"' in laws
    assert 'id="no_write_down"' in laws
    assert 'url=README.html"' in (site / "index.html").read_text("utf-8")
    assert "0001-python.html" in (site / "docs/decisions.html").read_text("utf-8")
    assert "<td>The pure &lt;core&gt;.</td>" in (site / "code/policy.html").read_text("utf-8")
    assert list(foreign(site)) == []


@pytest.mark.parametrize(
    "page, text, told",
    [
        ("README.md", "[x](docs/nowhere.md)", "docs/nowhere.md"),
        ("docs/laws.md", "[x](../policy/nowhere.py)", "../policy/nowhere.py"),
        ("README.md", "[x](docs/laws.md#nowhere)", "nowhere"),
        ("docs/laws.md", "[x](#nowhere)", "nowhere"),
        ("README.md", "![a picture](docs/nowhere.svg)", "docs/nowhere.svg"),
        ("docs/orphan.md", "# No reader has this page", "docs/orphan.md"),
    ],
)
def test_a_link_that_leads_nowhere_fails(page: str, text: str, told: str, repository: Path) -> None:
    with (repository / page).open("a", encoding="utf-8") as file:
        file.write(f"\n{text}\n")
    ended = built(repository)
    assert ended.returncode != 0
    assert told in ended.stderr


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.html", '<script src="https://cdn.example.org/a.js"></script>'),
        ("a.html", '<link rel="preconnect" href="//fonts.example.org">'),
        ("a.html", '<img srcset="a.png 1x, https://example.org/b.png 2x">'),
        ("a.html", '<p style="background: url(https://example.org/a.png)">'),
        ("a.html", "<script>navigator.sendBeacon('https://example.org/seen')</script>"),
        ("a.html", '<a href="b.html" ping="https://example.org/seen">b</a>'),
        ("a.svg", '<svg><image href="https://example.org/a.png"/></svg>'),
        ("a.css", "@import 'https://fonts.example.org/a.css';"),
        ("a.css", "@font-face { src: url( //fonts.example.org/a.woff2 ) }"),
        ("a.js", 'fetch("https://example.org/seen")'),
    ],
)
def test_a_thing_from_elsewhere_is_found(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert len(list(foreign(tmp_path))) == 1


def test_a_link_that_is_clicked_may_lead_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="https://example.org">elsewhere</a>', "utf-8")
    (tmp_path / "a.js").write_text('create("http://www.w3.org/2000/svg") // see https://example.org', "utf-8")
    assert list(foreign(tmp_path)) == []


def test_each_page_stands_once_under_a_reader() -> None:
    navigation = read(ROOT)
    patterns = [
        *(page for reader in navigation.reader for page in reader.pages),
        *(f"{folder}/*.md" for folder in navigation.folders),
    ]
    listed = [path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)]
    assert sorted(listed) == sorted(PAGES)


def test_the_check_builds_the_site_and_looks_for_things_from_elsewhere() -> None:
    tasks = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["poe"]["tasks"]
    assert any("docs" in group for group in tasks["check"]["parallel"])
    assert [step["cmd"] for step in tasks["docs"]["sequence"][1:]] == ["python -m tests.site .site/html"]
