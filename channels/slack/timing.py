"""How long things may take in talking with Slack."""

from dataclasses import dataclass

from channels.slack.speak import PACE


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds. `call` is how long any call may take, `pause` the first wait after a failure, `longest` the last.

    `ping` is how often a socket is probed; it counts as dead when half of that passes without an answer. One that
    brought nothing for `quiet` is replaced although it answers. `readers` is how long the readers of a channel are
    kept, `pace` the least between two edits of previews in a workspace. `patience` is how long a command is waited for
    before it is acknowledged: Slack waits three seconds. `sockets` is how many are open at a time.
    """

    call: float = 15.0
    pause: float = 1.0
    longest: float = 60.0
    ping: float = 10.0
    quiet: float = 600.0
    readers: float = 30.0
    pace: float = PACE
    sockets: int = 2
    patience: float = 2.0
