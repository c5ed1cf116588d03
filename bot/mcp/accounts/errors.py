"""Errors of speaking with an issuer; no word of them is the issuer's."""

from bot.core.errors import OperatorError


class AuthorizationError(OperatorError):
    """An issuer cannot be used as configured, or did not answer: an operator mends it, or waits."""


class GrantRefusedError(OperatorError):
    """The issuer does not accept a code or a refresh token: the person has to connect the account again."""
