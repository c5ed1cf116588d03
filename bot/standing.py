"""Where a session stands at one moment, and what its model proposes: the frozen facts every decision starts from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from channels.message import Address
from policy.labels import PUBLIC, Label
from policy.request import Destination, Role


@dataclass(frozen=True, slots=True)
class Standing:
    """A session as the gate sees it: whom it acts for, where it speaks, what it has read. `now` in store ms."""

    sid: str
    generation: int
    turn: str
    principal: str
    role: Role
    ceiling: Label
    home: Address
    destination: Destination
    taint: Label
    now: int

    @property
    def reader(self) -> Label:
        """What the person asking here may know: his clearance meet that of the address that answers (law 3)."""
        return self.ceiling.meet(self.destination.clearance or PUBLIC)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model proposed it; `arguments` is None when they are not a JSON object."""

    id: str
    tool: str
    arguments: Mapping[str, JsonValue] | None

    @property
    def digest(self) -> str:
        """The sha256 of the arguments in canonical form, for audit rows and bindings."""
        canonical = json.dumps(self.arguments, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
