"""`lockgate slack`: the Slack app as this configuration needs it, and links that install it in further workspaces."""

import os

from bot.app.adapters import installer, slack_manifest
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines
from bot.config.model import Config
from bot.core.errors import StoreError
from bot.core.ids import new_key
from bot.sessions.audit import AuditRow
from channels.port import VaultError


def manifest(config: Config) -> None:
    """Print the app's manifest; no token needs to be there.

    Raises ConfigError: the configuration does not say where Slack is to call.
    """
    print_json(slack_manifest(config.channels))


async def install(config: Config) -> None:
    """Print a link that installs the bot in one workspace; that it was made stands in the audit.

    Raises OperatorError: the user who runs this is not the owner, installing is not configured, or the store cannot be
    used.
    """
    async with as_owner(config) as (app, caller):
        made = installer(config.channels, os.environ, app.vault())
        await app.store.audit.append((AuditRow("install_link", caller.principal, {"channel": "slack"}),))
        try:
            link = await made.link(new_key().hex())
        except VaultError as error:
            # The store's own error tells how to mend it.
            raise error.__cause__ if isinstance(error.__cause__, StoreError) else StoreError(str(error)) from None
    print_lines([link])
