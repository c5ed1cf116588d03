"""Who a token is."""

from typing import Final

from fastapi import APIRouter
from pydantic import Field

from bot.api.requests import Reading
from bot.api.shapes import ApiOutput
from bot.sessions.api_tokens import Scope


class WhoAmI(ApiOutput):
    """The name and rights of a token."""

    name: str
    principal: str
    scope: Scope
    clearance: str = Field(description="The most that this token may read here.")
    expires_at: int = Field(description="Milliseconds since 1970; 0 for never.")


ROUTER: Final = APIRouter(tags=["tokens"])
"""The routes that tell who asks."""


@ROUTER.get("/whoami")
async def whoami(asked: Reading) -> WhoAmI:
    """Return the name and rights of this token."""
    token = asked.caller.token
    return WhoAmI(
        name=token.name,
        principal=asked.caller.principal,
        scope=token.scope,
        clearance=str(asked.reader),
        expires_at=token.expires_at,
    )
