"""What a conversation used of models: tokens, and money as far as prices are configured."""

from bot.commands.base import CommandContext, Reply, UsageError
from bot.sessions.values import Usage


async def usage(context: CommandContext, argument: str) -> Reply:
    """Tell what the session and its last turn used."""
    if argument:
        raise UsageError("")
    state = await context.state()
    if state is None:
        return Reply("this conversation has not begun, it has used nothing")
    last = state.last_turn
    lines = [f"in all {described(state.usage)}", *([] if last is None else [f"last turn {described(last.usage)}"])]
    return Reply("\n".join(lines), state.visibility)


def described(used: Usage) -> str:
    """Return usage in words; what is not known is said to be unknown, and is never counted as nothing."""
    known = "" if used.complete else ", not all of it known"
    requests = f"{used.requests} model {'request' if used.requests == 1 else 'requests'}"
    return f"{requests}, {used.input_tokens} tokens in, {used.output_tokens} out{known}, cost {_cost(used)}"


def _cost(used: Usage) -> str:
    # Cost is counted in millionths.
    amount = f"{used.cost / 1_000_000:.6f}".rstrip("0").rstrip(".")
    if used.priced:
        return amount
    return f"at least {amount}" if used.cost else "unknown"
