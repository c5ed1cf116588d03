"""The world outside: a tool that pays, and what was done with it.

Nobody ever approves anything here, so all of it was unasked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ConfigDict

from bot.tools.arguments import types
from bot.tools.base import Arguments, CallFacts, Result, Tool, ToolContext, ToolServices
from policy.labels import PUBLIC, Label
from policy.request import Effect as Kind


@dataclass(frozen=True, slots=True)
class Effect:
    """Something consequential that was done: by which tool, with what, and in whose name."""

    tool: str
    told: str
    asker: str


@dataclass(frozen=True, slots=True)
class Puppet:
    """A tool of the world: what it `gives` is PUBLIC, as it says, with the secret in the place of `<secret>`."""

    name: str
    gives: str = "paid"
    consequential: bool = True
    clearance: Label | None = PUBLIC


class PaidArguments(Arguments):
    """Whom to pay, or what."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    text: str


class Paying:
    """Implements the port `Tool`: does something that cannot be undone, and notes it."""

    description = "Pay."
    effect = Kind.SEND
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = PaidArguments

    def __init__(self, puppet: Puppet, sink: "Sink") -> None:
        self.name = puppet.name
        self._puppet = puppet
        self._sink = sink

    def declare(self, arguments: PaidArguments, context: ToolContext) -> CallFacts:
        return CallFacts(clearance=self._puppet.clearance, consequential=self._puppet.consequential)

    async def run(self, arguments: PaidArguments, context: ToolContext, services: ToolServices) -> Result:
        self._sink.effects.append(Effect(self.name, arguments.text, context.caller.asker))
        return Result(self._puppet.gives.replace("<secret>", self._sink.secret))


class Sink:
    """The tools of a world, what was done with them, and the secret of the run."""

    def __init__(self, puppets: tuple[Puppet, ...]) -> None:
        self.effects = list[Effect]()
        self.secret = ""
        self.puppets: tuple[Tool, ...] = tuple(Paying(puppet, self) for puppet in puppets)

    def arguments(self) -> Mapping[str, object]:
        """Return the tools' arguments, as a configuration is checked against."""
        return {tool.name: types(tool.arguments) for tool in self.puppets}
