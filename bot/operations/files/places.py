"""The places that keep files, by the names that the operator gives them."""

from enum import StrEnum


class FilesPlace(StrEnum):
    """A place that keeps files."""

    LOCAL = "local"
    """The folders of the data directory."""
    BUCKET = "bucket"
    """The bucket of `files.bucket` in config.yaml."""

    @property
    def other(self) -> "FilesPlace":
        """The place that files come from when they are copied to this one."""
        return FilesPlace.BUCKET if self is FilesPlace.LOCAL else FilesPlace.LOCAL
