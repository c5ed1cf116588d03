"""Folders of skills on the operator's disk: all are read or none, and no file of others is written over.

Neither a folder nor a file may be a symbolic link, so that nothing outside of the named folder is read or written.
"""

import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bot.core.errors import OperatorError
from bot.knowledge.skill_files import FILE, LARGEST, BrokenSkillError, SkillFile, read

MOST: Final = 500
"""Skills of one folder that are read."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_NEW: Final = f".{FILE}.new"


def read_skills(folder: Path) -> dict[str, SkillFile]:
    """Return the skills of a folder by the names of their own folders.

    Raises OperatorError: naming the fault of the first unreadable one, or of the folder.
    """
    found = dict[str, SkillFile]()
    names = dict[str, str]()
    with _opened(folder) as top:
        inside = sorted(
            name
            for name in os.listdir(top)  # noqa: PTH208 - of a descriptor, so that no link is followed
            if not name.startswith(".")
        )
        if FILE in inside:
            above = folder.absolute().parent
            raise OperatorError(f"`{folder}` is the folder of one skill", next_step=f"name the one above it, `{above}`")
        if len(inside) > MOST:
            raise OperatorError(f"`{folder}` has more than {MOST} entries")
        for name in inside:
            with _reporting(folder / name):
                source = _source(top, name)
                if source is None:
                    continue
                found[name] = read(source, name)
                title = found[name].text.name
                if title in names:
                    raise BrokenSkillError(f"its skill has the name of the one in `{names[title]}`")
                names[title] = name
    if not found:
        raise OperatorError(f"`{folder}` holds no folder with a {FILE}")
    return found


def write_skills(folder: Path, texts: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """Write skills, each into a folder of its own: by its name, the id of the skill and the text of the file.

    All is looked at before the first is written, and a file is there whole or as before. Returns the names of those
    that changed. Raises OperatorError: a file is there that is not of the same skill, or cannot be written.
    """
    with _reporting(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    changed = list[str]()
    with _opened(folder) as top:
        for name, (skill, text) in texts.items():
            with _reporting(folder / name):
                before = _source(top, name)
                if before is None or before.decode(errors="replace") != text:
                    changed.append(name)
                if before is not None and _id_in(before, name) != skill:
                    raise OperatorError(
                        f"`{folder / name / FILE}` is not ours and was left alone",
                        next_step="move it or name another folder",
                    )
        for name in changed:
            with _reporting(folder / name):
                _put(top, name, texts[name][1])
    return tuple(changed)


def _id_in(source: bytes, name: str) -> str:
    """Return the id of the skill that a file was saved of, empty for one from elsewhere."""
    try:
        return read(source, name).id
    except BrokenSkillError:
        return ""


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    """Open a folder that an operator named. Raises OperatorError: there is none."""
    with _reporting(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _reporting(path: Path) -> Generator[None]:
    """Say which path an error is about. Raises OperatorError: in place of the block's error."""
    try:
        yield
    except BrokenSkillError as error:
        raise OperatorError(f"`{path}`: {error}") from None
    except OSError as error:
        raise OperatorError(f"`{path}` cannot be used: {error.strerror or 'it is no path'}") from None


def _source(top: int, name: str) -> bytes | None:
    """Return the content of the file in a folder, None if there is no such folder or no file in it.

    Raises:
        BrokenSkillError: it is a link or no file.
        OSError: it cannot be read.
    """
    status = _status(name, top)
    if status is None:
        return None
    if not stat.S_ISDIR(status.st_mode):
        raise BrokenSkillError("it is no folder, and links are not followed")
    inside = os.open(name, _FOLDER, dir_fd=top)
    try:
        there = _status(FILE, inside)
        if there is None:
            return None
        if not stat.S_ISREG(there.st_mode):
            raise BrokenSkillError(f"its {FILE} is no file, and links are not followed")
        with os.fdopen(os.open(FILE, _READ, dir_fd=inside), "rb") as file:
            return file.read(LARGEST + 1)
    finally:
        os.close(inside)


def _status(name: str, folder: int) -> os.stat_result | None:
    """Return the status of a name in a folder, None if nothing is there. Raises OSError: it cannot be looked at."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _put(top: int, name: str, text: str) -> None:
    """Write the file of a folder, which is made if it is not there. Raises OSError: the old file stays."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=top)
    inside = os.open(name, _FOLDER, dir_fd=top)
    try:
        # One that a crash left.
        with suppress(FileNotFoundError):
            os.unlink(_NEW, dir_fd=inside)
        try:
            with os.fdopen(os.open(_NEW, _WRITE, 0o600, dir_fd=inside), "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            os.rename(_NEW, FILE, src_dir_fd=inside, dst_dir_fd=inside)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(_NEW, dir_fd=inside)
            raise
    finally:
        os.close(inside)
