"""Objects of an S3-compatible bucket, through the library `obstore`, which is imported here alone.

An object has a key, bytes and a few short texts beside them, its metadata. It is written only on a condition: that
there is none, or that the present one is the one that was read. Every request is bounded in time. All errors of the
library become UnavailableError. A body never decides how an object is read.
"""

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
)
from obstore.exceptions import UnauthenticatedError as UnknownKeyError
from obstore.store import S3Store

from bot.files.port import AbsentError, UnavailableError, UnusableError

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta
    from obstore.store import S3Config, S3Credential

_LOGGER: Final = logging.getLogger(__name__)

_CONNECT: Final = timedelta(seconds=3)
_STALL: Final = timedelta(seconds=10)
"""The longest pause of an answer."""
_REQUEST: Final = timedelta(seconds=60)
_RETRIED: Final = timedelta(seconds=10)
"""A request that failed is tried again within this time, twice at most."""

_AT_ONCE: Final = 16
"""Requests for metadata at the same time."""

_NO_BUCKET: Final = "<Code>NoSuchBucket</Code>"
_DENIED: Final = "status code: 403"
"""In the library's errors, where their type does not tell a missing bucket, or a refused list."""

_STRANGE: Final = "holds an object whose key has `//`, `/./`, `/../` or a control character, so nothing can be listed"

_KEY_MAX: Final = 1024
"""Bytes of the longest key in S3, its prefix included. A server refuses a longer one with an error of its own."""


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A bucket, and the credentials for it.

    Args:
        name: The bucket's name.
        prefix: The beginning of all keys, without a slash at its ends; empty for none.
        endpoint: The address of the server.
        region: Its region.
        key: The id of the access key.
        secret: The secret of the access key.
        token: The token of a temporary access key, empty for none.
    """

    name: str
    prefix: str
    endpoint: str
    region: str
    key: str
    secret: str
    token: str


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """An object without its bytes: `tag` changes with the bytes, `size` is their number."""

    tag: str
    size: int
    metadata: Mapping[str, str]


class Objects:
    """The objects of a bucket below a prefix. Every method blocks, and raises UnavailableError."""

    def __init__(self, address: BucketAddress) -> None:
        self._told = f"the bucket `{address.name}` at {address.endpoint}"
        # Each of these may also come from the environment, so none is left out.
        config: S3Config = {
            "endpoint": address.endpoint,
            "aws_endpoint_url_s3": address.endpoint,
            "region": address.region,
            "s3_express": False,
            "request_payer": False,
            "virtual_hosted_style_request": False,
            "skip_signature": False,
            "unsigned_payload": False,
            "conditional_put": "etag",
        }
        # Given as a whole: the token of another key, if the environment has one, would be sent beside this key.
        credentials: S3Credential = {
            "access_key_id": address.key,
            "secret_access_key": address.secret,
            "token": address.token or None,
            "expires_at": None,
        }
        self._longest = _KEY_MAX - (len(address.prefix.encode()) + 1 if address.prefix else 0)
        self._store = S3Store(
            address.name,
            prefix=address.prefix or None,
            config=config,
            credential_provider=lambda: credentials,
            client_options={
                # The configuration allows `http` on loopback alone.
                "allow_http": address.endpoint.startswith("http:"),
                "allow_invalid_certificates": False,
                "connect_timeout": _CONNECT,
                "read_timeout": _STALL,
                "timeout": _REQUEST,
            },
            retry_config={
                "max_retries": 2,
                "retry_timeout": _RETRIED,
                "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=1), "base": 2},
            },
        )

    def head(self, key: str) -> ObjectHead | None:
        """Return an object without its bytes, None if there is none."""
        if not self._fits(key):
            return None
        with self._asking():
            try:
                found = obstore.get(self._store, key, options={"head": True})
            except FileNotFoundError as error:
                self._require_bucket(error)
                return None
            return _head(found)

    def heads(self, keys: Sequence[str]) -> list[ObjectHead | None]:
        """Return objects without their bytes, in the order of their keys; None where there is none."""
        if len(keys) < 2:  # noqa: PLR2004 - nothing to do at the same time
            return [self.head(key) for key in keys]
        with ThreadPoolExecutor(min(_AT_ONCE, len(keys))) as pool:
            return list(pool.map(self.head, keys))

    def get(self, key: str, most: int | None) -> tuple[ObjectHead, bytes]:
        """Return an object, of at most `most` bytes, None for any number.

        Raises:
            AbsentError: there is none.
            UnusableError: it is larger.
        """
        if not self._fits(key):
            raise AbsentError
        with self._asking():
            try:
                found = obstore.get(self._store, key)
            except FileNotFoundError as error:
                self._require_bucket(error)
                raise AbsentError from None
            head = _head(found)
            if most is not None and head.size > most:
                raise UnusableError
            return head, bytes(found.bytes())

    def put(self, key: str, content: bytes, metadata: Mapping[str, str], *, over: str | None) -> bool:
        """Write an object over the one with the tag `over`, None for no object, and say whether it was there still.

        Raises UnusableError: the key is too long.
        """
        if not self._fits(key):
            raise UnusableError
        with self._asking():
            try:
                obstore.put(
                    self._store,
                    key,
                    content,
                    attributes=dict(metadata),
                    mode="create" if over is None else {"e_tag": over},
                )
            except (AlreadyExistsError, PreconditionError):
                return False
            except FileNotFoundError as error:
                self._require_bucket(error)
                if over is None:
                    raise
                return False
        return True

    def folder(self, key: str) -> tuple[list[str], list[str]]:
        """Return the names of the objects and of the folders directly below a key, each in order."""
        with self._asking():
            found = obstore.list_with_delimiter(self._store, key)  # pyright: ignore[reportUnknownMemberType] - Arrow's
            return (
                sorted(_last(one["path"]) for one in found["objects"] if self._is_there(one)),
                sorted(_last(prefix) for prefix in found["common_prefixes"]),
            )

    def below(self, key: str) -> Iterator[str]:
        """Yield the keys below a key, in order of their bytes."""
        with self._asking():
            listed = obstore.list(self._store, key, chunk_size=1000)  # pyright: ignore[reportUnknownMemberType] - Arrow's
            for some in listed:
                yield from (one["path"] for one in some if self._is_there(one))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; one that is not there is none."""
        with self._asking():
            if keys:
                obstore.delete(self._store, keys)

    def _is_there(self, listed: "ObjectMeta") -> bool:
        """Say whether a listed object has this key: one that stands for a folder in another tool is listed without `/`.

        Such objects are empty, and ours are not.
        """
        return listed["size"] > 0 or self.head(listed["path"]) is not None

    def _fits(self, key: str) -> bool:
        """Say whether an object may have this key."""
        return len(key.encode()) <= self._longest

    def _require_bucket(self, error: FileNotFoundError) -> None:
        """Raise UnavailableError if it is the bucket that is not there."""
        if _NO_BUCKET in str(error):
            raise self._missing() from None

    def _missing(self) -> UnavailableError:
        return self._unavailable("does not exist", "create it, or mend `files.bucket.name`")

    def _denied(self) -> UnavailableError:
        step = "check the key of `files.bucket`: it must be allowed to list, read, write and delete objects"
        return self._unavailable("denies access", step)

    def _unavailable(self, problem: str, step: str) -> UnavailableError:
        error = UnavailableError(f"{self._told} {problem}", next_step=step)
        _LOGGER.warning("the bucket cannot be used", extra={"subject": "files", "cause": str(error), "step": step})
        return error

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Turn the errors of the library into ours; its words may hold a part of the request, so they are not told."""
        try:
            yield
        except (PermissionDeniedError, UnknownKeyError):
            raise self._denied() from None
        except FileNotFoundError:
            raise self._missing() from None
        except InvalidPathError:
            # The library lists none then. Its words name the object, whose name is as secret as its content.
            raise self._unavailable(_STRANGE, "rename it or delete it there, with another tool") from None
        except (BaseError, OSError, ValueError) as error:
            if _NO_BUCKET in str(error):
                raise self._missing() from None
            if _DENIED in str(error):
                raise self._denied() from None
            step = "check `files.bucket`, and the network of this machine"
            raise self._unavailable(f"does not answer as it should, {type(error).__name__}", step) from None


def _head(found: "GetResult") -> ObjectHead:
    return ObjectHead(
        found.meta["e_tag"] or "", found.meta["size"], {name: str(value) for name, value in found.attributes.items()}
    )


def _last(key: str) -> str:
    return key.rstrip("/").rpartition("/")[2]
