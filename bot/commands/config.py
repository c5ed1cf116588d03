"""`/config` for admins: what is in force of config.yaml, section by section, without what is or may hold a secret."""

from typing import Final

from bot.access.labelling import CONFIGURED
from bot.commands.base import CommandContext, CommandError, Reply, UsageError
from bot.config.shown import Shown, sections
from policy.errors import nearest

_POLICY: Final = "policy"
_FEW: Final = 30
_MOST: Final = 300


async def config(context: CommandContext, argument: str) -> Reply:
    """Show every section, or one of them whole."""
    match argument.split():
        case []:
            known = sections(context.config)
            lines = [line for name, values in known.items() for line in _lines(name, values, _FEW)]
            return _told(context, [*lines, *_policy(context), "* is not the default"])
        case [name] if name == _POLICY:
            return _told(context, _policy(context))
        case [name]:
            known = sections(context.config)
            if name not in known:
                raise CommandError(f"there is no section `{name[:40]}`{nearest(name, [*known, _POLICY])}")
            return _told(context, _lines(name, known[name], _MOST))
        case _:
            raise UsageError("")


def _told(context: CommandContext, lines: list[str]) -> Reply:
    return Reply(context.gate.masks.masked("\n".join(lines)), CONFIGURED)


def _lines(name: str, values: tuple[Shown, ...], most: int) -> list[str]:
    lines = [f"{'*' if one.changed else '-'} {one.path}: {one.value}" for one in values[:most]]
    left = len(values) - most
    return [*lines, f"- and {left} more in `{name}`"] if left > 0 else lines


def _policy(context: CommandContext) -> list[str]:
    """Return the names in the policy in force, with what people changed; `/policy` tells its rules."""
    document = context.gate.document
    named = {
        "compartments": document.compartments,
        "principals": document.principals,
        "channels": document.channels,
        "recipients": document.recipients,
        "folders": document.folders,
        "models": document.models,
        "transcribers": document.transcribers,
    }
    lines = [f"- {_POLICY}.{section}: {', '.join(sorted(names)) or 'none'}" for section, names in named.items()]
    return [*lines, f"- {_POLICY}.rules: {len(document.rules)}, `/policy` tells them"]
