"""`/config`, `/policy` and `/doctor` for admins: the configuration, the policy in force, and faults to mend.

No value that is or may hold a secret is shown. Facts about the configuration have its label, and are left out for
readers below it.
"""

from dataclasses import dataclass
from typing import Final

from bot.access.labelling import CONFIGURED
from bot.commands.command import CommandError, CommandRequest, Reply, UsageError
from bot.config.model import Config
from bot.config.shown import Shown, sections
from bot.core.errors import ConfigError
from bot.gate.gate import Gate
from bot.operations import diagnostics, policy_check
from bot.operations.diagnostics import Diagnostics
from bot.operations.probes import ends
from bot.policy_state import PolicyReloader
from policy.errors import nearest
from policy.labels import PUBLIC, join_all

_POLICY: Final = "policy"
_FEW: Final = 30
_MOST: Final = 300


@dataclass(frozen=True, slots=True)
class ConfigurationCommands:
    """Show the configuration, the policy in force, and faults to mend."""

    gate: Gate
    reloader: PolicyReloader
    diagnostics: Diagnostics
    config: Config

    async def show(self, request: CommandRequest, argument: str) -> Reply:  # noqa: ARG002 - every command's signature
        """Show every section, or one of them whole."""
        match argument.split():
            case []:
                known = sections(self.config)
                lines = [line for name, values in known.items() for line in _lines(name, values, _FEW)]
                return self._told([*lines, *self._policy(), "* is not the default"])
            case [name] if name == _POLICY:
                return self._told(self._policy())
            case [name]:
                known = sections(self.config)
                if name not in known:
                    raise CommandError(f"there is no section `{name[:40]}`{nearest(name, [*known, _POLICY])}")
                return self._told(_lines(name, known[name], _MOST))
            case _:
                raise UsageError("")

    def _told(self, lines: list[str]) -> Reply:
        return Reply(self.gate.masks.masked("\n".join(lines)), CONFIGURED)

    def _policy(self) -> list[str]:
        """Return the names in the policy in force, with people's changes; `/policy` tells its rules."""
        document = self.gate.document
        named = {
            "compartments": document.compartments,
            "principals": document.principals,
            "groups": document.groups,
            "channels": document.channels,
            "recipients": document.recipients,
            "folders": document.folders,
            "models": document.models,
            "transcribers": document.transcribers,
        }
        lines = [f"- {_POLICY}.{section}: {', '.join(sorted(names)) or 'none'}" for section, names in named.items()]
        return [*lines, f"- {_POLICY}.rules: {len(document.all_rules)}, `/policy` tells them"]

    async def policy(self, request: CommandRequest, argument: str) -> Reply:
        """Show the policy in force, check the file, or put it in force."""
        match argument:
            case "" | "show":
                return Reply("\n".join(await self._shown()), CONFIGURED)
            case "check":
                return Reply("\n".join(await self._checked()), CONFIGURED)
            case "reload":
                reloaded = await self.reloader.reload(request.caller.principal)
                # The fact that it was done tells nothing of its content.
                return Reply(str(reloaded), CONFIGURED if reloaded.problem or reloaded.removed else PUBLIC)
            case _:
                raise UsageError("")

    async def _checked(self) -> list[str]:
        """Return the state of the file: its problems, or its digest and warnings."""
        try:
            config = await self.reloader.read()
        except ConfigError as error:
            return [str(error)]
        found = policy_check.lines(str(config.source), policy_check.warnings(config))
        return [*found, f"Policy {config.policy.digest[:12]} can be put in force."]

    async def _shown(self) -> list[str]:
        at_store = await self.reloader.shown()
        document = self.gate.document
        stands = "is not in force" if self.reloader.behind else "is in force"
        lines = [f"Policy {self.reloader.digest[:12]} {stands}, {len(document.all_rules)} rules of your own.", at_store]
        if document.digest != self.reloader.digest:
            since = "its groups, and the changes of people" if document.memberships else "the changes of people"
            lines.append(f"With {since} since it decides as {document.digest[:12]}.")
        for rule in document.all_rules:
            what = f": {rule.message}" if rule.message else ""
            lines.append(f"- {rule.id} at {rule.hook} says {rule.action.name}{what}")
        return [*lines, *ends.people(document)]

    async def doctor(self, request: CommandRequest, argument: str) -> Reply:
        """List the faults to mend, one line for each, and notes."""
        if argument:
            raise UsageError("")
        reader = (await request.standing(None)).reader
        told = [
            one
            for one in await self.diagnostics.look(self.gate.document.top)
            if (one.problem or one.note) and one.label.flows_to(reader)
        ]
        lines = [self.gate.masks.masked(diagnostics.line(one)) for one in told] or [NOTHING]
        return Reply("\n".join((*lines, OTHERS)), join_all(one.label for one in told))


def _lines(name: str, values: tuple[Shown, ...], most: int) -> list[str]:
    lines = [f"{'*' if one.changed else '-'} {one.path}: {one.value}" for one in values[:most]]
    left = len(values) - most
    return [*lines, f"- and {left} more in `{name}`"] if left > 0 else lines


NOTHING: Final = "Nothing is to be mended, as far as that may be told here."
OTHERS: Final = "`lockgate doctor` looks at everything, also from outside."
