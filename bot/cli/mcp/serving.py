"""`lockgate mcp serve`: Lockgate for one agent, whose host starts this process and speaks to it.

It runs no turns: sessions that it begins are worked by `lockgate run`, which stands beside it. It ends when its input
does. A signal ends it at once, as any client of the store may end.
"""

import os

from bot.config.model import Config
from bot.core.errors import OperatorError


async def serve_mcp(config: Config) -> None:
    """Serve until the input ends.

    Raises OperatorError: there is no token, it is not valid, or this installation cannot serve MCP.
    """
    from bot.app import programs

    token = os.environ.get(programs.TOKEN, "").strip()
    if not token:
        raise OperatorError(f"`{programs.TOKEN}` is not set", next_step=programs.LIST_TOKENS)
    from bot.app.opening import open_app

    async with open_app(config, []) as app:
        await programs.answer_agent(app, token)
