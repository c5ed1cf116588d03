"""The HTTP API: where programs reach this installation, and how much of anything they may take."""

from pydantic import Field

from bot.config.fields import Block, only_here


class ApiSettings(Block):
    """The address of the HTTP API on this machine, and its limits.

    TLS is for a proxy in front of it: tokens travel as they are.
    """

    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    port: int = Field(default=8484, ge=0, le=65535)
    requests_per_minute: int = Field(default=600, ge=1, le=1_000_000)
    """Each token's limit at one process, unless the token sets its own."""
    most_body_bytes: int = Field(default=1_000_000, ge=1_000, le=100_000_000)
    """The largest body of a request."""
    most_import_bytes: int = Field(default=50_000_000, ge=1_000, le=1_000_000_000)
    """The largest body of an import."""
    most_connections: int = Field(default=2_000, ge=1, le=100_000)
    """The most connections of one process at a time."""
    most_streams: int = Field(default=1_000, ge=1, le=100_000)
    """The most connections of one process that follow events."""
    heartbeat_seconds: float = Field(default=15, ge=0.1, le=600)
    """The time after which a silent stream sends a sign of life."""

    @property
    def url(self) -> str:
        """The address as programs on this machine have it."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def warning(self) -> str:
        """The warning to operators about an address that other machines reach, empty for one of this machine alone."""
        return (
            ""
            if only_here(self.host)
            else "other machines reach it, let a proxy in front of it speak TLS, as tokens are sent bare"
        )
