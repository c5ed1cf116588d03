"""The git repository of run records: commits of files on one branch, by one writer at a time across processes.

A commit is made from the branch, never from the index or the work tree, which people may have changed. So nothing of
theirs is committed, and nothing of theirs is lost (`bot.run_records.work_tree`). No hook is run and no configuration
but the repository's own is read. Everything is written beside its place and moved there, so that a crash at any moment,
or a full disk, leaves the old state. The next try then commits the same files.

A folder that is not ours is left alone: one that another user owns, a symbolic link, or one that others may change. So
is a folder that has files in it and no repository marked as one for records.
"""

import fcntl
import os
import re
import shutil
import stat
import struct
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dulwich.errors import ChecksumMismatch, FileFormatException, NotGitRepository, WrongObjectException
from dulwich.index import UnsupportedIndexFormat
from dulwich.object_store import tree_lookup_path
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.refs import DiskRefsContainer, Ref
from dulwich.repo import Repo, UnsupportedExtension, UnsupportedVersion

from bot.core.errors import DiskError, OperatorError, WriterBusyError
from bot.run_records.files import LockedError, replaced, written
from bot.run_records.work_tree import FRESH, ShownFile, show

BRANCH: Final = Ref(b"refs/heads/main")
"""The branch of records, with any other branch checked out."""

AUTHOR: Final = b"Lockgate <lockgate@localhost>"

_MARK: Final = ("lockgate", "records")
_FRESH: Final = ".lockgate.new"
_TRIES: Final = 5

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_FILE: Final = stat.S_IFREG | 0o644
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


_DAMAGED: Final = (
    *(ChecksumMismatch, FileFormatException, NotGitRepository, WrongObjectException),
    *(UnsupportedIndexFormat, UnsupportedExtension, UnsupportedVersion),
    *(AssertionError, LookupError, TypeError, ValueError, struct.error, zlib.error),
)
"""The library's errors for a repository that it cannot read."""


class RecordRepository:
    """Writes records to the repository in a folder, and reads them. Its methods block: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def commit(self, path: str, make: Callable[[bytes | None], Mapping[str, bytes]], *, message: str, at: int) -> bool:
        """Commit the files that `make` returns; return whether they changed anything.

        It gets the branch's content at `path`, None for nothing, while no other process writes. `at` is the moment of
        the commit, in milliseconds since the epoch.

        Raises:
            WriterBusyError: another process writes.
            DiskError: it cannot be written now.
            OperatorError: the folder is not one of ours, or its content is damaged.
        """
        with self._told(), self._locked() as descriptor, self._made() as repo:
            for _ in range(_TRIES):
                files = make(_content(repo, path))
                try:
                    with suppress(_MovedError):
                        return _committed(repo, descriptor, _divided(files), message=message.encode(), at=at // 1000)
                except LockedError:
                    break
        raise _busy(self._folder)

    def read(self, path: str) -> bytes | None:
        """Return a file as the branch has it, None if there is none.

        Raises:
            DiskError: it cannot be read now.
            OperatorError: the repository is damaged or not ours.
        """
        with self._told(), self._found() as repo:
            return repo and _content(repo, path)

    def find(self, folder: str, name: str) -> str | None:
        """Return the path of a file of this name one folder below `folder`, the last of those; None if there is none.

        Raises:
            DiskError: as `read`.
            OperatorError: as `read`.
        """
        with self._told(), self._found() as repo:
            top = repo and _tree(repo, folder.encode())
            if not repo or not top:
                return None
            for below in sorted(top, reverse=True):
                found = _tree(repo, b"/".join((folder.encode(), below)))
                if found is not None and name.encode() in found:
                    return f"{folder}/{below.decode()}/{name}"
        return None

    @contextmanager
    def _told(self) -> Generator[None]:
        """Tell what keeps the repository from being used as an error of ours."""
        try:
            yield
        except OSError as error:
            reason = (error.strerror or "unknown error").lower()
            step = "make room on its disk, or mend its permissions"
            raise DiskError(f"{self._folder}: cannot be used, {reason}", next_step=step) from error
        except _DAMAGED as error:
            step = "mend it with `git fsck`, or move it away so that a new one is begun"
            raise OperatorError(f"{self._folder}: the git repository there is damaged", next_step=step) from error

    @contextmanager
    def _locked(self) -> Generator[int]:
        """Be the one writer; yield a descriptor of the folder, which is made at need. Raises WriterBusyError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = self._descriptor()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield descriptor
        except BlockingIOError:
            raise _busy(self._folder) from None
        finally:
            os.close(descriptor)

    def _descriptor(self) -> int:
        """Open the folder. Raises OperatorError: it is not ours."""
        try:
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except (NotADirectoryError, FileExistsError):
            raise self._foreign("it is no folder, or a symbolic link") from None
        known = os.fstat(descriptor)
        if known.st_uid == os.geteuid() and not known.st_mode & _OTHERS:
            return descriptor
        os.close(descriptor)
        raise self._foreign("it belongs to another user, or others may write there")

    def _foreign(self, why: str) -> OperatorError:
        step = "name an empty folder of your own with `runs.records.folder`"
        return OperatorError(f"{self._folder}: run records are not written there, {why}", next_step=step)

    @contextmanager
    def _found(self) -> Generator[Repo | None]:
        """Yield the repository, None if there is none yet."""
        if not os.path.lexists(self._folder):
            yield None
            return
        os.close(self._descriptor())
        if not os.path.lexists(self._folder / ".git"):
            yield None
            return
        with self._opened() as repo:
            yield repo

    @contextmanager
    def _made(self) -> Generator[Repo]:
        """Yield the repository, which is made in an empty folder; remains of a crash while making it are removed."""
        if not os.path.lexists(self._folder / ".git"):
            fresh = self._folder / _FRESH
            if {path.name for path in self._folder.iterdir()} - {_FRESH}:
                raise self._foreign("there are other files, and no repository for records")
            if fresh.exists():
                shutil.rmtree(fresh)
            fresh.mkdir(mode=0o700)
            with Repo.init(fresh, default_branch=BRANCH.rpartition(b"/")[2], shared_repository="0600") as repo:
                config = repo.get_config()
                config.set((_MARK[0],), _MARK[1], value=True)
                config.write_to_path()
            (fresh / ".git").chmod(0o700)
            (fresh / ".git").rename(self._folder / ".git")
            fresh.rmdir()
        with self._opened() as repo:
            yield repo

    @contextmanager
    def _opened(self) -> Generator[Repo]:
        """Yield the repository that is there. Raises OperatorError: it is not for records."""
        if not (self._folder / ".git").is_dir() or (self._folder / ".git").is_symlink():
            raise self._foreign("its repository is elsewhere")
        with Repo(self._folder) as repo:
            marked = repo.get_config().get_boolean((_MARK[0],), _MARK[1], False)  # noqa: FBT003 - as dulwich has it
            plain = repo.object_format.name == "sha1" and isinstance(repo.refs, DiskRefsContainer)
            if not (marked and plain):
                step = f"name an empty folder, or run `git config {'.'.join(_MARK)} true` in it"
                raise OperatorError(f"{self._folder}: the git repository there is not for run records", next_step=step)
            yield repo


class _MovedError(Exception):
    """The branch was moved by somebody else meanwhile."""


def _busy(folder: Path) -> WriterBusyError:
    step = "wait for the git command that runs there, or remove its lock if none does"
    return WriterBusyError(f"{folder}: another process writes there", next_step=step)


def _committed(repo: Repo, descriptor: int, files: Mapping[tuple[str, ...], bytes], *, message: bytes, at: int) -> bool:
    """Commit files, and show them where the branch is checked out; return whether they changed anything.

    Raises:
        _MovedError: somebody else committed.
        LockedError: somebody else works there.
    """
    tip = _tip(repo)
    blobs = {path: Blob.from_string(content) for path, content in files.items()}
    shown = [ShownFile(path, files[path], blob.id, _blob(repo, "/".join(path))) for path, blob in blobs.items()]
    for blob in blobs.values():
        _add(repo, blob)
    before = None if tip is None else _commit_tree(repo, tip)
    tree = _grafted(repo, before, {tuple(map(os.fsencode, path)): blob.id for path, blob in blobs.items()})
    if repo.refs.read_ref(Ref(b"HEAD")) == b"ref: " + BRANCH:
        show(repo, descriptor, shown)
    if tree == before:
        return False
    commit = Commit()
    commit.tree, commit.parents = tree, [] if tip is None else [tip]
    commit.author = commit.committer = AUTHOR
    commit.author_time = commit.commit_time = at
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding, commit.message = b"UTF-8", message + b"\n"
    _add(repo, commit)

    def moved() -> bytes:
        if _tip(repo) != tip:
            raise _MovedError
        return commit.id + b"\n"

    replaced(Path(repo.controldir(), os.fsdecode(BRANCH)), moved, Path(repo.controldir()))
    return True


def _add(repo: Repo, thing: ShaFile) -> None:
    """Keep an object, which has the place that its content gives it."""
    if thing.id in repo.object_store:
        return
    name = thing.id.decode("ascii")
    place = Path(repo.controldir()) / "objects" / name[:2] / name[2:]
    place.parent.mkdir(mode=0o700, exist_ok=True)
    written(Path(repo.controldir()) / FRESH, thing.as_legacy_object(), place)


def _divided(files: Mapping[str, bytes]) -> dict[tuple[str, ...], bytes]:
    """Return files by the parts of their paths. Raises RuntimeError: a name is not one of ours."""
    parts = {tuple(path.split("/")): content for path, content in files.items()}
    if all(_NAME.fullmatch(name) for path in parts for name in path):
        return parts
    raise RuntimeError(list(files))


def _tip(repo: Repo) -> ObjectID | None:

    try:
        return repo.refs[BRANCH]
    except KeyError:
        return None


def _commit_tree(repo: Repo, tip: ObjectID) -> ObjectID:

    commit = repo[tip]
    if not isinstance(commit, Commit):
        raise TypeError(tip)
    return commit.tree


def _grafted(repo: Repo, root: ObjectID | None, files: Mapping[tuple[bytes, ...], ObjectID]) -> ObjectID:
    """Add a tree that has files in the place of those of `root`; return its id."""
    tree = Tree()
    if root is not None:
        found = repo[root]
        if not isinstance(found, Tree):
            raise TypeError(root)
        for entry in found.items():
            tree[entry.path] = (entry.mode, entry.sha)
    for name in {path[0] for path in files}:
        inner = {path[1:]: blob for path, blob in files.items() if path[0] == name}
        if () in inner:
            tree[name] = (_FILE, inner[()])
        else:
            below = tree[name][1] if name in tree and stat.S_ISDIR(tree[name][0]) else None
            tree[name] = (stat.S_IFDIR, _grafted(repo, below, inner))
    _add(repo, tree)
    return tree.id


def _blob(repo: Repo, path: str) -> ObjectID | None:
    """Return the id of the branch's object at a path, None if there is none."""
    tip = _tip(repo)
    if tip is None:
        return None
    try:
        return tree_lookup_path(repo.object_store.__getitem__, _commit_tree(repo, tip), path.encode())[1]
    except KeyError:
        return None


def _content(repo: Repo, path: str) -> bytes | None:

    found = _blob(repo, path)
    blob = found and repo[found]
    return blob.data if isinstance(blob, Blob) else None


def _tree(repo: Repo, path: bytes) -> list[bytes] | None:
    """Return the names in a folder of the branch, None if it has no such folder."""
    found = _blob(repo, path.decode())
    tree = found and repo[found]
    return [entry.path for entry in tree.items()] if isinstance(tree, Tree) else None
