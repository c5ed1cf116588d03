"""`lockgate token`: the tokens of programs that use the HTTP API.

The text of a token is the only line on the standard output, so that a script can take it from there. The notes for
people go to standard error. It is shown once and kept nowhere.
"""

import re
import sys
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from bot.access import labelling
from bot.access.tokens import address_of, unsighted
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.clock import moment
from bot.core.errors import OperatorError
from bot.operations.tokens import ListedToken, MadeToken, TokenRequest
from bot.sessions.api_tokens import ApiToken, Scope
from channels.console import visible
from policy.document.model import Document
from policy.document.reading import API
from policy.errors import LabelTextError
from policy.labels import Label

NEVER: Final = "never"

_LIFE: Final = re.compile(r"([1-9][0-9]{0,4})([mhd])\Z")
_MS: Final = MappingProxyType({"m": 60_000, "h": 3_600_000, "d": 86_400_000})
_LONGEST_MS: Final = 3_650 * 86_400_000


async def create(  # noqa: PLR0913 - the options of a command
    config: Config, name: str, *, scope: Scope, clearance: str, expires: str, per_minute: int, as_json: bool
) -> None:
    """Make a token and print it.

    Raises OperatorError: the name was given before, or no program is let in by this configuration.
    """
    _served(config)
    asked = TokenRequest(name, scope, _label(config, clearance), life(expires), per_minute)
    async with as_owner(config) as (app, caller):
        made = await app.token_keeper.create(asked, caller)
    _print(made, as_json=as_json)
    _note_bound(config.policy, made.token)


async def rotate(config: Config, name: str, *, expires: str, as_json: bool) -> None:
    """Give a token another secret and print it. Raises OperatorError: there is no such token, or it was revoked."""
    async with as_owner(config) as (app, caller):
        made = await app.token_keeper.rotate(name, life(expires), caller.principal)
    _print(made, as_json=as_json)


async def revoke(config: Config, name: str) -> None:
    """Let a token count no more. Raises OperatorError: there is no such token, or it was revoked before."""
    async with as_owner(config) as (app, caller):
        await app.token_keeper.revoke(name, caller.principal)
    print_lines([f"{name} is revoked: its sessions stand still, and its name is never given again"])


async def list_tokens(config: Config, *, as_json: bool) -> None:
    """Print all tokens, without their text, which is kept nowhere."""
    async with as_owner(config, looking=True) as (app, _):
        listed = await app.token_keeper.listed()
    if as_json:
        print_json([_document(one.token) | {"state": one.state.value} for one in listed])
        return
    heads = ("name", "scope", "clearance", "state", "expires (UTC)", "made by", "per minute")
    print_lines(table([heads, *map(_row, listed)]) if listed else ["there are no tokens"])


def life(written: str) -> int:
    """Read for how long a token is to count, in milliseconds, 0 for ever. Raises OperatorError: it is not a time."""
    if written == NEVER:
        return 0
    match = _LIFE.match(written)
    found = int(match[1]) * _MS[match[2]] if match else 0
    if not 0 < found <= _LONGEST_MS:
        raise OperatorError(
            f"`{written}` is not a time that a token may count",
            next_step="write one as `30d`, `12h` or `45m`, at most `3650d`, or `never`",
        )
    return found


def _served(config: Config) -> None:
    """Refuse to let in programs that no process would know. Raises OperatorError."""
    if API not in config.policy.channels:
        raise OperatorError(
            f"no program is let in while `policy.channels.{API}` is missing",
            next_step="configure `channels.api` and `policy.channels.api`, see docs/tokens.md",
        )


def _label(config: Config, written: str) -> Label:
    try:
        return config.policy.top if written == "top" else labelling.named(config.policy, written)
    except LabelTextError as error:
        raise OperatorError(
            str(error), next_step="write one as `INTERNAL` or `CONFIDENTIAL{acme}`, of `policy.compartments`, or `top`"
        ) from None


def _print(made: MadeToken, *, as_json: bool) -> None:
    if as_json:
        print_json({**_document(made.token), "token": made.text})
        return
    print_lines([made.text])
    token = made.token
    until = f"until {moment(token.expires_at)} UTC" if token.expires_at else "for ever"
    _note(f"{token.name} may {token.scope.value}, cleared for {token.clearance}, {until}; this is shown once")


def _note_bound(policy: Document, token: ApiToken) -> None:
    """Tell that a program reads less than its token allows, or nothing, because of its channel's classification."""
    most = labelling.classification(policy, address_of(token.name), shared=False)
    if most is not None and not token.clearance.flows_to(most):
        _note(f"it reads no more than `policy.channels.{API}` is classified for, which is {most}")
    if unsighted(policy, [token]):
        _note("it may not read its own messages, so it sees none of its sessions")


def _note(line: str) -> None:
    sys.stderr.write(f"{visible(line)}\n")


def _document(token: ApiToken) -> dict[str, JsonValue]:
    return {
        "name": token.name,
        "id": token.id,
        "scope": token.scope.value,
        "clearance": str(token.clearance),
        "created": token.created_at,
        "expires": token.expires_at,
        "revoked": token.revoked_at,
        "created_by": token.created_by,
        "per_minute": token.per_minute,
    }


def _row(one: ListedToken) -> tuple[str, ...]:
    token = one.token
    return (
        token.name,
        token.scope.value,
        str(token.clearance),
        one.state.value,
        moment(token.expires_at) if token.expires_at else NEVER,
        token.created_by,
        str(token.per_minute) if token.per_minute else "-",
    )
