"""The kept lines: private, bounded, and gone with their conversation."""

import stat
from pathlib import Path

from bot.cli.keyboard.history import MOST, LineHistory, TypedLine


def _read(path: Path) -> tuple[str, ...]:
    history = LineHistory(path)
    history.load()
    return tuple(line.text for line in history.lines)


def test_lines_are_read_again_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    history = LineHistory(path)
    for text in ("one", "two\nlines", "two\nlines", "ü\x85"):
        history.add(TypedLine("s", 1, text))
    assert _read(path) == ("one", "two\nlines", "ü\x85")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    history.keep(lambda line: line.text != "one")
    assert _read(path) == ("two\nlines", "ü\x85")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "one" not in path.read_text()
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_text('{"sid": "s", "generation": 1, "text": "mine"}\nbroken\n[]\n{"sid": 1}\n')
    path.chmod(0o644)
    assert _read(path) == ("mine",)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_link_is_followed_and_what_cannot_be_written_is_kept_in_memory(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "kept"
    other.write_text('{"sid": "s", "generation": 1, "text": "foreign"}\n')
    path.symlink_to(other)
    history = LineHistory(path)
    history.load()
    history.add(TypedLine("s", 1, "mine"))
    assert [line.text for line in history.lines] == ["mine"]
    assert "mine" not in other.read_text()


def test_the_newest_lines_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    history = LineHistory(path)
    for number in range(MOST + 1):
        history.add(TypedLine("s", 1, str(number)))
    assert len(_read(path)) <= MOST
    assert _read(path)[-1] == str(MOST)
