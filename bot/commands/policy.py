"""`/policy`: what is in force, whether the file could be put in force, and putting it there; for admins."""

from bot.access.labelling import CONFIGURED
from bot.commands.base import CommandContext, Reply, UsageError
from policy.labels import PUBLIC


async def policy(context: CommandContext, argument: str) -> Reply:
    """Show the policy in force, check the file, or put it in force."""
    match argument:
        case "" | "show":
            return Reply("\n".join(await _shown(context)), CONFIGURED)
        case "check":
            return Reply("\n".join(await context.reloader.check()), CONFIGURED)
        case "reload":
            reloaded = await context.reloader.reload(context.caller.principal)
            # That it was done tells nothing of what it says.
            return Reply(str(reloaded), CONFIGURED if reloaded.problem else PUBLIC)
        case _:
            raise UsageError("")


async def _shown(context: CommandContext) -> list[str]:
    at_store = await context.reloader.shown()
    document = context.gate.document
    stands = "is not in force" if context.reloader.behind else "is in force"
    lines = [f"policy {context.reloader.digest[:12]} {stands}, {len(document.rules)} rules of your own", at_store]
    if document.digest != context.reloader.digest:
        lines.append(f"with what people changed since it decides as {document.digest[:12]}")
    for rule in document.rules:
        what = f": {rule.message}" if rule.message else ""
        lines.append(f"- {rule.id} at {rule.hook} says {rule.action.name}{what}")
    return lines
