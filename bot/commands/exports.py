"""`/export`: a signed copy of one of the caller's own conversations, for whoever reads at the address that answers."""

from typing import Final

from bot.commands.base import CommandContext, Reply, UsageError
from bot.commands.sessions import NOTHING_SAID
from bot.core.errors import NotFoundError
from bot.export import EXPORTED
from bot.gate.results import MAY_GO_ON
from bot.sessions.visibility import visible

LARGEST: Final = 20_000
"""Characters of an export that a chat shows."""


async def export(context: CommandContext, argument: str) -> Reply:
    """Show an export of this conversation or of another that may be told of here."""
    words = argument.split()
    if len(words) > 1:
        raise UsageError("")
    standing = await context.standing(None)
    sid = words[0] if words else context.sid
    state = await visible(context.store.sessions, sid, context.caller.principal, standing.reader)
    if state is None and words:
        raise NotFoundError
    if state is None:
        return Reply(NOTHING_SAID)
    made = await context.exporter.export(standing, state)
    if made.text is None:
        return Reply(context.explained(made.decision, standing, "/export", EXPORTED), state.visibility)
    shown = context.gate.output.reply(standing, standing.destination, made.text, made.label)
    # One changed character, and the signature would not fit any more.
    whole = shown.decision.verdict in MAY_GO_ON and shown.text == made.text
    if len(made.text) > LARGEST or not whole:
        command = f"lockgate export {state.sid} --out FILE"
        return Reply(f"this export cannot be shown whole here, the owner makes it with `{command}`", made.label)
    return Reply(made.text, made.label)
