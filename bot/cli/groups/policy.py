"""`lockgate policy`: check and try out the policy."""

from pathlib import Path
from typing import Annotated, Final

import typer

from bot.cli.groups.options import AsJson, carry_out, config_at, config_of

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


@policy_app.command("who")
def _policy_who(
    context: typer.Context,
    target: Annotated[str, typer.Argument(help="A label, a chat of the policy, or a folder.")],
    *,
    as_json: AsJson = False,
) -> None:
    """List who may read, say, approve and release there, and by which entry or group."""
    from bot.cli.policy import who

    carry_out(who(config_of(context), target, as_json=as_json))


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


@policy_app.command("replay")
def _policy_replay(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A configuration whose policy is tried.")],
    days: Annotated[int, typer.Option(help="How far to look back.")] = 30,
    *,
    as_json: AsJson = False,
) -> None:
    """Decide the audit's decisions again by another file, and tell what would change; nothing is written."""
    from bot.cli.operating.replay import replay

    carry_out(replay(config_of(context), config_at(file), days, as_json=as_json))
