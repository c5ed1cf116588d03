"""`lockgate slack`: set up the Slack app."""

from typing import Final

import typer

from bot.cli.groups.options import carry_out, config_of

slack_app: Final = typer.Typer(help="Set up the Slack app.", no_args_is_help=True)


@slack_app.command("manifest")
def _slack_manifest(context: typer.Context) -> None:
    """Print the manifest that makes the Slack app at api.slack.com, as JSON."""
    from bot.cli.slack import manifest

    manifest(config_of(context))


@slack_app.command("install")
def _slack_install(context: typer.Context) -> None:
    """Print a link that installs the bot in one workspace, once, within ten minutes."""
    from bot.cli.slack import install

    carry_out(install(config_of(context)))
