"""When a request is sent again, and how long the client waits before it."""

import asyncio
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import httpx2

from lockgate.errors import TOO_MANY, UNAVAILABLE, ApiError, LockgateClientError, UnreachableError

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_STOOD: Final = 1.0
_JITTER: Final = 1000
_NOTHING_DONE: Final = "not_serving"
_KEY_BYTES: Final = 18
_LONGEST_KEY: Final = 256


class Retry:
    """The tries of one request, or of one stream since it was last told something.

    Pauses double up to five seconds, and are shortened at random by up to a half, so that clients that were cut off
    together do not come back together.

    Args:
        patience: for how many seconds it is tried again.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._pause = _FIRST_PAUSE
        self._until = _now() + patience

    def anew(self) -> None:
        """Start the count again, after an event arrived."""
        self._pause = _FIRST_PAUSE
        self._until = _now() + self._patience

    @contextmanager
    def standing(self) -> Generator[None]:
        """Hold while a connection stands; one that stood for a while begins the count anew when it breaks off."""
        since = _now()
        try:
            yield
        finally:
            if _now() - since >= _STOOD:
                self.anew()

    async def after(self, problem: LockgateClientError, *, again: bool) -> None:
        """Wait before the next try, at least as long as the API asks for.

        Raises LockgateClientError: `problem`, if it may not be tried again, or not within the patience.
        """
        asked = problem.retry_after if isinstance(problem, ApiError) else 0.0
        pause = max(asked, self._pause * (1 - secrets.randbelow(_JITTER) / (2 * _JITTER)))
        if not again or _now() + pause > self._until:
            raise problem
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        await asyncio.sleep(pause)


def never_reached(error: httpx2.RequestError) -> bool:
    """Say whether a request certainly was not done: there was no connection for it."""
    return isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)


def for_now(problem: LockgateClientError, *, repeatable: bool) -> bool:
    """Say whether a request that was answered with this may be sent again.

    A store that failed may have done a write that it did not acknowledge; a refused request changed nothing.
    """
    if isinstance(problem, UnreachableError):
        return repeatable
    if not isinstance(problem, ApiError):
        return False
    if problem.status == UNAVAILABLE:
        return repeatable or problem.code == _NOTHING_DONE
    return problem.status == TOO_MANY


def _now() -> float:
    return asyncio.get_running_loop().time()


def new_key() -> str:
    """Return an idempotency key, by which the API knows a request that is sent again."""
    return secrets.token_urlsafe(_KEY_BYTES)


def sendable(key: str) -> str:
    """Return an idempotency key of a program's own. Raises ValueError: no header can hold it."""
    if not 0 < len(key) <= _LONGEST_KEY or not key.isascii() or not key.isprintable() or key != key.strip():
        raise ValueError(
            "this is no idempotency key: it is up to 256 printable ASCII characters, without spaces around"
        )
    return key
