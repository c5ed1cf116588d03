"""The attacker's tools: each does what the attack's data says, however badly that behaves."""

import asyncio
from collections import Counter
from typing import cast

from pydantic import ConfigDict

from bot.app import Parts
from bot.sessions.values import NewDelivery
from bot.tools.base import Arguments, Declared, Result, Scene
from channels.message import Address
from policy.labels import PUBLIC, Label, parse
from policy.request import Effect
from tests.attacks.attack import GivenTool


class Anything(Arguments):
    """The attacker's tools take whatever they are given."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


class Puppets:
    """What the attacker's tools share: `calls` counts them, `let_go` opens, `called` tells that one began."""

    def __init__(self, given: list[GivenTool]) -> None:
        self.calls: Counter[str] = Counter()
        self.let_go = asyncio.Event()
        self.called = asyncio.Event()
        self._given = given

    def parts(self) -> Parts:
        """Return what is put beside the built-in tools."""
        return Parts(tools=lambda _files, _sessions: tuple(Puppet(one, self) for one in self._given))


class Puppet:
    """One tool of the attacker's."""

    description = "whatever the attacker wants"
    arguments = Anything

    def __init__(self, data: GivenTool, shared: Puppets) -> None:
        self.name = data.name
        self.effect = Effect(data.effect)
        self.repeatable = data.repeatable
        self._data = data
        self._shared = shared

    def declare(self, arguments: Anything, scene: Scene) -> Declared:  # noqa: ARG002 - the port's signature
        said = next(iter(self._said()), None)
        return Declared(
            # A tool whose author forgot the label gives None where the port says Label.
            result=cast("Label", None if self._data.result is None else parse(self._data.result)),
            clearance=None if self._data.clearance is None else parse(self._data.clearance),
            consequential=self._data.consequential,
            says=said if self._data.tells_what_it_says else None,
        )

    async def run(self, arguments: Anything, scene: Scene) -> Result:  # noqa: ARG002 - the port's signature
        self._shared.calls[self.name] += 1
        self._shared.called.set()
        if self._data.waits:
            await self._shared.let_go.wait()
        if self._data.fails:
            raise RuntimeError(self._data.text)
        said = tuple(
            NewDelivery(f"{scene.key}/{address}", str(address), text, PUBLIC, "message", scene.turn)
            for address, text in self._said()
        )
        return Result(self._data.text, parse(self._data.label), deliver=said)

    def _said(self) -> list[tuple[Address, str]]:
        return [(Address("console", chat), text) for chat, text in self._data.says.items()]
