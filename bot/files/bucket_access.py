"""Access to the configured bucket: its credentials, and a probe of the guarantees that labelled files need of it.

The library is imported when a bucket is configured, so that an installation without one starts as fast as before.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from bot.config.files import BucketSettings
from bot.core.errors import ConfigError
from bot.files.port import AbsentError

if TYPE_CHECKING:
    from bot.files.objects import Objects

_PROBE: Final = ".probe"
"""The folder of the objects that a probe writes, and deletes again."""

_OTHER_TAG: Final = '"00000000000000000000000000000000"'

CONDITIONS: Final = (
    "use a server with metadata and conditional writes, that is a PUT with `If-None-Match` and `If-Match`"
)
"""The operator's step if a guarantee does not hold."""


def opened_objects(settings: BucketSettings, environment: Mapping[str, str]) -> "Objects":
    """Return the objects of a bucket; nothing is sent yet.

    Raises ConfigError: the library is not installed, or a variable with the key is not set.
    """
    given = {name: environment.get(name, "").strip() for name in (settings.key, settings.secret, settings.token)}
    for name in (settings.key, settings.secret):
        if not given[name]:
            raise ConfigError("`files.bucket` needs a key", next_step=f"set {name} in the environment")
    try:
        from bot.files.objects import BucketAddress, Objects
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise ConfigError(
            "`files.bucket` needs a package that is not installed", next_step="install `lockgate[bucket]`"
        ) from None
    return Objects(
        BucketAddress(
            name=settings.name,
            prefix=settings.prefix,
            endpoint=settings.url,
            region=settings.region,
            key=given[settings.key],
            secret=given[settings.secret],
            token=given[settings.token],
        )
    )


def reach(objects: "Objects") -> None:
    """List a folder of the bucket that is empty. Raises UnavailableError."""
    objects.folder(_PROBE)


def probed(objects: "Objects", nonce: str) -> Iterator[str]:
    """Write, read and delete an object under a name of its own, and yield the guarantees that do not hold.

    Raises UnavailableError.
    """
    key, said = f"{_PROBE}/{nonce}", {"lockgate-label": "PUBLIC", "lockgate-write": nonce}
    try:
        if not objects.put(key, b"first", said, over=None):
            yield "it refuses a new object"
            return
        try:
            head, content = objects.get(key, None)
        except AbsentError:
            yield "an object that was written is not there"
            return
        if content != b"first":
            yield "an object comes back with other bytes"
        if dict(head.metadata) != {**head.metadata, **said}:
            yield "it does not keep the metadata of objects"
        if objects.put(key, b"second", said, over=None):
            yield "it overwrites an object that is to be new"
        if objects.put(key, b"third", said, over=_OTHER_TAG):
            yield "it overwrites an object that changed since it was read"
        now = objects.head(key)
        if now is None or not objects.put(key, b"fourth", said, over=now.tag):
            yield "it refuses to overwrite an object that did not change since it was read"
        if nonce not in objects.folder(_PROBE)[0]:
            yield "a new object is not in the list of its folder"
    finally:
        objects.delete([key])
    if objects.head(key) is not None:
        yield "a deleted object is still there"
