"""`lockgate doctor`: is everything there that running needs, and how to mend what is not."""

import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.cli.output import print_json, print_lines
from bot.cli.owner import as_owner
from bot.config.model import Config
from bot.errors import EXIT_OPERATOR, LockgateError

_KEYS: Final = MappingProxyType({"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what is wrong and how to mend it, both empty when it is in order."""

    subject: str
    problem: str = ""
    next_step: str = ""


async def doctor(config: Config, *, as_json: bool) -> int:
    """Print what was looked at; return 2 if something is to be mended."""
    found = [Finding("configuration"), _model(config)]
    try:
        async with as_owner(config) as (app, _):
            found.append(Finding("data directory"))
            problems = await app.store.complaints()
            found.extend(Finding("store", str(problem), problem.next_step) for problem in problems)
            if not problems:
                found.append(Finding("store"))
    except LockgateError as error:
        found.append(Finding("data directory and store", str(error), error.next_step))
    if as_json:
        print_json([{"subject": one.subject, "problem": one.problem, "next_step": one.next_step} for one in found])
    else:
        print_lines(_line(one) for one in found)
    return EXIT_OPERATOR if any(one.problem for one in found) else 0


def _model(config: Config) -> Finding:
    """Look whether the model's provider has its key and a clearance."""
    name = config.model.name
    provider = name.partition(":")[0]
    variable = _KEYS.get(provider)
    if variable and not os.environ.get(variable):
        return Finding("model", f"`{name}` needs a key", f"set {variable} in the environment")
    if name not in config.policy.models:
        return Finding("model", f"`{name}` has no clearance, it may read PUBLIC alone", "add it to `policy.models`")
    return Finding("model")


def _line(finding: Finding) -> str:
    if not finding.problem:
        return f"ok    {finding.subject}"
    return f"mend  {finding.subject}: {finding.problem}{f', {finding.next_step}' if finding.next_step else ''}"
