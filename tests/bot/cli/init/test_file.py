"""The file is written whole or not at all, and as private as it was."""

import stat
from pathlib import Path

import pytest

from bot.cli.init.file import text_of, write
from bot.core.errors import OperatorError


def fine(_: Path) -> None:
    pass


def refused(path: Path) -> None:
    raise OperatorError(f"{path}:3: nonsense")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.yaml"
    assert write(path, "a: 1\n", None, fine) is None
    assert (path.read_text(), mode(path), mode(path.parent)) == ("a: 1\n", 0o600, 0o700)
    assert [*path.parent.iterdir()] == [path]


def test_the_file_of_before_is_kept_with_its_rights_and_its_link(tmp_path: Path) -> None:
    real, path = tmp_path / "real.yaml", tmp_path / "config.yaml"
    real.write_bytes(b"a: 1\r\n")
    real.chmod(0o640)
    path.symlink_to(real)
    kept = write(path, "a: 2\n", text_of(path), fine)
    assert kept is not None
    assert kept == tmp_path / "real.yaml.bak"
    assert (kept.read_bytes(), mode(kept)) == (b"a: 1\r\n", 0o640)
    assert (path.is_symlink(), real.read_text(), mode(real)) == (True, "a: 2\n", 0o640)
    assert len([*tmp_path.iterdir()]) == 3


@pytest.mark.parametrize("before", [None, "a: 1\n"])
def test_a_text_that_is_no_configuration_leaves_nothing(tmp_path: Path, before: str | None) -> None:
    folder = tmp_path / "new" if before is None else tmp_path
    path = folder / "config.yaml"
    if before is not None:
        path.write_text(before)
    with pytest.raises(OperatorError, match=r"config\.yaml:3: nonsense") as error:
        write(path, "a: 2\n", before, refused)
    assert str(path) in str(error.value)
    assert [one.name for one in tmp_path.rglob("*")] == ([] if before is None else ["config.yaml"])
    assert before is None or path.read_text() == before


@pytest.mark.parametrize("before", [None, "a: 1\n"])
def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: theirs\n")
    with pytest.raises(OperatorError, match="was changed meanwhile"):
        write(path, "a: 2\n", before, fine)
    assert path.read_text() == "a: theirs\n"
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    link, folder, binary = tmp_path / "link", tmp_path / "folder", tmp_path / "binary"
    link.symlink_to(tmp_path / "nowhere")
    folder.mkdir()
    binary.write_bytes(b"\xff\xfe")
    for path in (link, folder, binary):
        with pytest.raises(OperatorError) as error:
            text_of(path)
        assert error.value.next_step
