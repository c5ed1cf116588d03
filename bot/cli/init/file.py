"""The file of `lockgate init`: the shipped template, and writing it whole or not at all.

The new text is written beside the file, checked there as a configuration, and then put in its place in one step. The
file of before is kept beside it as `.bak`.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import bot
from bot.core.errors import ConfigError, OperatorError

_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_CHANGED: Final = "{} was changed meanwhile"
_AGAIN: Final = "run `lockgate init` again"


def template_path() -> Path:
    """Return where the shipped config.yaml is: beside the packages of the program, in a checkout and in a wheel."""
    return Path(bot.__file__).parents[1] / "config.yaml"


def template() -> str:
    """Return the text of the shipped config.yaml. It blocks.

    Raises OperatorError: it is not there.
    """
    try:
        return template_path().read_text("utf-8")
    except OSError as error:
        raise _unusable("the shipped config.yaml", error, "install lockgate again") from None


def text_of(path: Path) -> str | None:
    """Return the text of a configuration as it is, None if there is none. It blocks.

    Raises OperatorError: it cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        if path.is_symlink():
            raise OperatorError(f"{path}: leads nowhere", next_step="mend the link, or remove it") from None
        return None
    except UnicodeDecodeError:
        raise OperatorError(f"{path}: not UTF-8", next_step="save the file as UTF-8") from None
    except OSError as error:
        raise _unusable(str(path), error, "check its permissions") from None


def write(path: Path, text: str, before: str | None, check: Callable[[Path], None]) -> Path | None:
    """Write a configuration in one step; return the copy of the file of before, None if there was none. It blocks.

    `before` is the text that was read. `check` raises OperatorError for a text that is no configuration.

    Raises OperatorError: the text is refused, the file was changed meanwhile, or it cannot be written.
    """
    # A link stays a link.
    real = Path(os.path.realpath(path))
    made = not real.parent.exists()
    try:
        real.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        return _written(real, text, before, check)
    except OSError as error:
        raise _unusable(str(path), error, "choose another folder, or check its permissions") from None
    finally:
        if made and not real.exists():
            with suppress(OSError):
                real.parent.rmdir()


def _written(real: Path, text: str, before: str | None, check: Callable[[Path], None]) -> Path | None:
    fresh = real.with_name(f".{real.name}.{os.getpid()}")
    try:
        _create(fresh, text, _like(real))
        _checked(fresh, real, check)
        if text_of(real) != before:
            raise ConfigError(_CHANGED.format(real), next_step=_AGAIN)
        if before is None:
            try:
                # Unlike a move this fails where a file appeared meanwhile.
                os.link(fresh, real)
            except FileExistsError:
                raise ConfigError(_CHANGED.format(real), next_step=_AGAIN) from None
            return None
        kept = real.with_name(f"{real.name}.bak")
        copy = fresh.with_name(f"{fresh.name}.bak")
        try:
            _create(copy, before, _like(real))
            copy.replace(kept)
        finally:
            copy.unlink(missing_ok=True)
        fresh.replace(real)
        return kept
    finally:
        fresh.unlink(missing_ok=True)


def _checked(fresh: Path, real: Path, check: Callable[[Path], None]) -> None:
    """Refuse a text that is no configuration, by the name that it would have."""
    try:
        check(fresh)
    except OperatorError as error:
        raise ConfigError(
            str(error).replace(str(fresh), str(real)), next_step=error.next_step or "give other answers"
        ) from None


def _like(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _create(path: Path, text: str, like: os.stat_result | None) -> None:
    """Write a file that was not there, with the rights and the owner of another."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        if like is not None:
            if (like.st_uid, like.st_gid) != (os.getuid(), os.getgid()):
                with suppress(PermissionError):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def _unusable(name: str, error: OSError, step: str) -> OperatorError:
    reason = (error.strerror or "unknown error").lower()
    return OperatorError(f"{name}: cannot be used, {reason}", next_step=step)
