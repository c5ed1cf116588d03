"""The HTTP API: where programs reach this installation, and how much of anything they may take."""

import ipaddress

from pydantic import Field

from bot.config.fields import Block


class ApiSettings(Block):
    """Where the HTTP API listens, and its limits.

    `host` and `port` are of this machine. TLS is for a proxy in front of it: tokens travel as they are.

    `requests_per_minute` is what each token may ask of one process, unless the token says otherwise.
    `most_body_bytes` is the largest body of a request, `most_import_bytes` that of one that brings a session in.
    `most_connections` are those of one process at a time, and `most_streams` how many of them may follow events.
    `heartbeat_seconds` is how often a stream that has nothing to tell says that it stands.
    """

    host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    port: int = Field(default=8484, ge=0, le=65535)
    requests_per_minute: int = Field(default=600, ge=1, le=1_000_000)
    most_body_bytes: int = Field(default=1_000_000, ge=1_000, le=100_000_000)
    most_import_bytes: int = Field(default=50_000_000, ge=1_000, le=1_000_000_000)
    most_connections: int = Field(default=2_000, ge=1, le=100_000)
    most_streams: int = Field(default=1_000, ge=1, le=100_000)
    heartbeat_seconds: float = Field(default=15, ge=0.1, le=600)

    @property
    def url(self) -> str:
        """The address as programs on this machine have it."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def warning(self) -> str:
        """What operators are told of an address that other machines reach, empty for one of this machine alone."""
        try:
            own = ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            own = self.host == "localhost"
        return "" if own else "other machines reach it, let a proxy in front of it speak TLS, as tokens are sent bare"
