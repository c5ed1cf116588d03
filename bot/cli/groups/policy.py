"""`lockgate policy`: check and try out the policy."""

from pathlib import Path
from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, config_of

policy_app: Final = typer.Typer(help="Check and try out the policy.", no_args_is_help=True)


@policy_app.command("check")
def _policy_check(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Check the policy, and warn of rules that never decide or silence too much."""
    from bot.cli.policy import check

    check(config_of(context), as_json=as_json)


@policy_app.command("test")
def _policy_test(
    context: typer.Context, cases: Annotated[Path, typer.Argument(help="A file of cases.")], *, as_json: AsJson = False
) -> None:
    """Run the cases of a file; exit code 3 if one is decided otherwise than it says."""
    from bot.cli.policy import test

    raise typer.Exit(test(config_of(context), cases, as_json=as_json))


@policy_app.command("explain")
def _policy_explain(
    context: typer.Context,
    cases: Annotated[Path, typer.Argument(help="A file of cases.")],
    case: Annotated[str, typer.Argument(help="The name of one of them.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Tell why a case is decided as it is."""
    from bot.cli.policy import explained

    explained(config_of(context), cases, case, as_json=as_json)
