"""`lockgate token`: let programs use the HTTP API."""

from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, carry_out, config_of
from bot.sessions.api_tokens import Scope

token_app: Final = typer.Typer(help="Let programs use the HTTP API.", no_args_is_help=True)

_Expires = Annotated[str, typer.Option(help="For how long, as 30d, 12h or 45m; or `never`.")]


@token_app.command("create")
def _token_create(  # noqa: PLR0913 - one for each option
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name for the program, which no other token ever had.")],
    *,
    scope: Annotated[
        Scope,
        typer.Option(
            help="`read` looks at its own sessions. `steer` also begins, steers and ends them. `admin` also approves "
            "calls and reads the audit."
        ),
    ] = Scope.READ,
    clearance: Annotated[
        str, typer.Option(help="The most it may know, as `INTERNAL`, `CONFIDENTIAL{acme}` or `top`.")
    ] = "PUBLIC",
    expires: _Expires = "30d",
    per_minute: Annotated[
        int, typer.Option(min=0, max=100_000, help="Requests in a minute; 0 for the configured number.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Make a program's token and print it, once."""
    from bot.cli.tokens import create

    config = config_of(context)
    made = create(
        config, name, scope=scope, clearance=clearance, expires=expires, per_minute=per_minute, as_json=as_json
    )
    carry_out(made)


@token_app.command("list")
def _token_list(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List all tokens, without their text."""
    from bot.cli.tokens import list_tokens

    carry_out(list_tokens(config_of(context), as_json=as_json))


@token_app.command("rotate")
def _token_rotate(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The program's name.")],
    *,
    expires: _Expires = "30d",
    as_json: AsJson = False,
) -> None:
    """Give a token another text and print it, once; the text before counts no more."""
    from bot.cli.tokens import rotate

    carry_out(rotate(config_of(context), name, expires=expires, as_json=as_json))


@token_app.command("revoke")
def _token_revoke(context: typer.Context, name: Annotated[str, typer.Argument(help="The program's name.")]) -> None:
    """End a token for good; its name is never given again."""
    from bot.cli.tokens import revoke

    carry_out(revoke(config_of(context), name))
