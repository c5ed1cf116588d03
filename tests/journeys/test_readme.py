"""The README's transcript: each line is typed into the real command line, and what it shows is compared exactly."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conventions.documents import ROOT, blocks
from tests.journeys.forked import inherited

TYPED = "> "


def turns(text: str) -> list[tuple[str, list[str]]]:
    """Return what is typed, and the lines shown after each."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(TYPED):
            found.append((line.removeprefix(TYPED), []))
        else:
            found[-1][1].append(line)
    return found


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, str]:
    """A clone nobody used yet: the shipped configuration, and a data directory of its own."""
    return {**inherited(), "LOCKGATE_DATA_DIR": str(tmp_path / "data"), "PYTHONIOENCODING": "utf-8"}


def test_the_transcript_is_what_happens(fresh: dict[str, str]) -> None:
    (transcript,) = blocks("README.md", "transcript")
    with subprocess.Popen(
        [sys.executable, "-m", "bot", "chat"],
        cwd=ROOT,
        env=fresh,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        for typed, expected in turns(transcript.text):
            chat.stdin.write(f"{typed}\n")
            chat.stdin.flush()
            shown: list[str] = []
            # A line that differs ends the reading, so that a shorter answer is told instead of waited for.
            while shown == expected[: len(shown)] and len(shown) < len(expected):
                shown.append(chat.stdout.readline().rstrip("\n"))
            assert shown == expected, f"after `{typed}`"
        out, err = chat.communicate(timeout=60)
    assert (out, err, chat.returncode) == ("", "", 0)


def test_the_same_lines_from_a_file_give_the_same(fresh: dict[str, str], tmp_path: Path) -> None:
    (transcript,) = blocks("README.md", "transcript")
    story = turns(transcript.text)
    (tmp_path / "lines.txt").write_text("".join(f"{typed}\n" for typed, _ in story), "utf-8")
    with (tmp_path / "lines.txt").open("rb") as lines:
        ended = subprocess.run(
            [sys.executable, "-m", "bot", "chat"], cwd=ROOT, env=fresh, stdin=lines, capture_output=True, check=True
        )
    assert ended.stdout.decode().splitlines() == [line for _, shown in story for line in shown]
