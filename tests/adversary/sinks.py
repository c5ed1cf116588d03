"""The world outside: a tool that pays, and what was done with it.

Nobody ever approves anything here, so all of it was unasked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict

from bot.tools.arguments import types
from bot.tools.base import (
    Arguments,
    CallFacts,
    Content,
    Identifier,
    Recipient,
    Result,
    RoleMark,
    Tool,
    ToolContext,
    ToolServices,
)
from policy.labels import PUBLIC, Label
from policy.request import ArgumentRole
from policy.request import Effect as Kind
from tests.adversary.offices import Office


@dataclass(frozen=True, slots=True)
class Effect:
    """Something consequential that was done: by which tool, with what, and in whose name."""

    tool: str
    told: str
    asker: str


class PaidArguments(Arguments):
    """The recipient of a payment, or its subject."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    text: Identifier

    def __str__(self) -> str:
        return self.text


class TransferArguments(Arguments):
    """A transfer of money, each argument with its role."""

    to: Recipient
    amount: Annotated[int, RoleMark(ArgumentRole.AMOUNT)]
    text: Content

    def __str__(self) -> str:
        return f"{self.to} {self.amount}"


class LooseArguments(TransferArguments):
    """The same, described by somebody who calls the recipient content."""

    to: Content


@dataclass(frozen=True, slots=True)
class Puppet:
    """A tool of the world: what it `gives` is PUBLIC, as it says, with the secret in the place of `<secret>`."""

    name: str
    gives: str = "paid"
    consequential: bool = True
    clearance: Label | None = PUBLIC
    arguments: type[Arguments] = PaidArguments
    labelled: bool = False
    """What was done is noted with the label that its session had."""
    quiet: bool = False
    """What was done is seen by nobody below."""


class Paying:
    """Implements the port `Tool`: does something that cannot be undone, and notes it."""

    description = "Pay."
    effect = Kind.SEND
    label = PUBLIC
    repeatable = True
    server = ""

    def __init__(self, puppet: Puppet, sink: "Sink") -> None:
        self.name = puppet.name
        self.arguments = puppet.arguments
        self._puppet = puppet
        self._sink = sink

    def declare(self, arguments: Arguments, context: ToolContext) -> CallFacts:
        return CallFacts(clearance=self._puppet.clearance, consequential=self._puppet.consequential)

    async def run(self, arguments: Arguments, context: ToolContext, services: ToolServices) -> Result:
        told = f"{arguments} at {context.session.taint}" if self._puppet.labelled else str(arguments)
        if not self._puppet.quiet:
            self._sink.effects.append(Effect(self.name, told, context.caller.asker))
        return Result(self._puppet.gives.replace("<secret>", self._sink.secret))


class Sink:
    """The tools of a world, what was done with them, and the secret of the run."""

    def __init__(self, puppets: tuple[Puppet, ...], office: Office | None = None) -> None:
        self.effects = list[Effect]()
        self.secret = ""
        self.turns = 0
        made: tuple[Tool, ...] = tuple(Paying(puppet, self) for puppet in puppets)
        self.tools: tuple[Tool, ...] = made if office is None else (*made, *office.tools(self))

    def begin(self, secret: str) -> None:
        """Forget what was done, and have another secret."""
        self.effects.clear()
        self.secret, self.turns = secret, 0

    def note(self, tool: str, told: str) -> None:
        """Note what a server did; whose call it was, a server does not know."""
        self.effects.append(Effect(tool, told, "owner"))

    def arguments(self) -> Mapping[str, object]:
        """Return the tools' arguments, as a configuration is checked against."""
        return {tool.name: types(tool.arguments) for tool in self.tools if not tool.server}
