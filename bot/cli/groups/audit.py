"""`lockgate audit`: look at the audit chains."""

from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, carry_out, config_of

audit_app: Final = typer.Typer(help="Look at the audit chains.", no_args_is_help=True)


@audit_app.command("tail")
def _audit_tail(
    context: typer.Context,
    chain: Annotated[str, typer.Option(help="A session's id, or `audit` for decisions outside any.")] = "audit",
    count: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many of the newest records.")] = 20,
    *,
    as_json: AsJson = False,
) -> None:
    """Show the newest records of an audit chain."""
    from bot.cli.audit import tail

    carry_out(tail(config_of(context), chain, count, as_json=as_json))


@audit_app.command("verify")
def _audit_verify(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Check every audit chain; exit code 3 if one was tampered with."""
    from bot.cli.audit import verify

    raise typer.Exit(carry_out(verify(config_of(context), as_json=as_json)))
