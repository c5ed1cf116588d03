"""Who a program is that shows a token (stands in until the branch `tok` is merged)."""

from dataclasses import dataclass

from bot.access.authorize import Caller
from bot.sessions.api_tokens import ApiToken, Scope
from policy.labels import Label


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """A program recognised by its token: who it is to the policy, and what the token may."""

    token: ApiToken
    caller: Caller

    @property
    def name(self) -> str:
        """The token's name."""
        return self.token.name

    @property
    def principal(self) -> str:
        """The principal that the program is."""
        return self.caller.principal

    def may(self, scope: Scope) -> bool:
        """Say whether the token's scope includes another."""
        return self.token.scope.covers(scope)


class Tokens:
    """Recognises programs."""

    def authenticate(self, text: str) -> ApiCaller | None:
        """Return who shows a token, None for one that is unknown, wrong, expired or revoked."""
        _ = text
        return None

    def reader(self, caller: ApiCaller) -> Label:
        """Return the most that a program may read."""
        return caller.caller.clearance
