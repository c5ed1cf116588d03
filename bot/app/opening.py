"""Opens the application: its data directory, its keys, its store, and all that is built on them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from bot.app.adapters import platforms
from bot.app.app import App
from bot.app.extensions import BUILT_IN, Extensions
from bot.app.first_run import make_bare, seed
from bot.app.keys import Secrets
from bot.app.plugins import Plugins, load_plugins
from bot.app.stores import opened_store
from bot.config.model import Config
from bot.core.clock import SystemClock
from bot.knowledge.index import require_search
from channels.port import Channel


@asynccontextmanager
async def open_app(  # noqa: PLR0913 - what an application is opened with
    config: Config,
    channels: Sequence[Channel],
    environment: Mapping[str, str] = os.environ,
    parts: Extensions = BUILT_IN,
    *,
    listening: bool = False,
    looking: bool = False,
    with_any_keys: bool = False,
) -> AsyncGenerator[App]:
    """Open the application on a configuration and the channels of this process, and close it in the end.

    With `listening` the configured platforms are among them. `looking` is for commands that only report: the data
    directory, its anchors and the store stay as they are, so that a backup can be put back there. `with_any_keys` is
    for the command that makes the keys here those of the installation.

    Raises OperatorError: the data directory, a secret, a plugin or a token cannot be used, or Python cannot search
    texts. Raises OtherKeysError: the keys here are not the installation's. Raises StoreError.
    """
    plugins, secrets = await asyncio.to_thread(_prepared, config, environment, looking=looking)
    store = await opened_store(config, secrets, SystemClock())
    try:
        app = App(
            config=config,
            secrets=secrets,
            store=store,
            channels=channels,
            listened=platforms(
                config.channels,
                environment,
                lease=store.rights,
                vault=lambda: store.vault(secrets.vault),
                in_force=lambda: app.gate.document,
                plugins=plugins,
            )
            if listening
            else (),
            clock=store.time,
            environment=environment,
            parts=parts,
            plugins=plugins,
        )
        await _begun(app, secrets, listening=listening, looking=looking, with_any_keys=with_any_keys)
        with app.failures.listening():
            try:
                yield app
            finally:
                await _left(app, looking=looking)
    finally:
        await store.close()


async def _begun(app: App, secrets: Secrets, *, listening: bool, looking: bool, with_any_keys: bool) -> None:
    """Compare the keys before anything is written with them. Raises as `open_app`."""
    if looking:
        await app.shared_keys.compare()
        # Some reports are rows of the audit, such as a simulation or a secret that a server was given.
        app.store.installation_keys.agree_first(app.shared_keys.agree)
    elif not with_any_keys:
        await app.shared_keys.agree()
    if listening and secrets.vault[1:]:
        await app.store.renew_vault(secrets.vault)
    await app.reloader.open()


async def _left(app: App, *, looking: bool) -> None:
    await app.close()
    if not looking:
        await app.chains.anchor()


def _prepared(config: Config, environment: Mapping[str, str], *, looking: bool) -> tuple[Plugins, Secrets]:
    """Make the data directory, and return the plugins and the secrets. Raises OperatorError: as `open_app`."""
    if looking:
        make_bare(config.data_dir)
    else:
        seed(config.data_dir, examples=config.files.bucket is None)
    require_search()
    plugins = load_plugins(config.plugins, config.folder, config.policy.code.rules)
    return plugins, Secrets.load(config, environment)
