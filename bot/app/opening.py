"""Opens the application: its data directory, its keys, its store, and all that is built on them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from bot.app.adapters import platforms
from bot.app.app import App
from bot.app.extensions import BUILT_IN, Extensions
from bot.app.first_run import seed
from bot.app.keys import Secrets
from bot.app.plugins import Plugins, load_plugins
from bot.app.stores import opened_store
from bot.config.model import Config
from bot.core.clock import SystemClock
from bot.knowledge.index import require_search
from channels.port import Channel


@asynccontextmanager
async def open_app(
    config: Config,
    channels: Sequence[Channel],
    environment: Mapping[str, str] = os.environ,
    parts: Extensions = BUILT_IN,
    *,
    listening: bool = False,
) -> AsyncGenerator[App]:
    """Open the application on a configuration and the channels of this process, and close it in the end.

    With `listening` the configured platforms are among them. Raises OperatorError: the data directory, its keys, a
    configured secret, a plugin, a platform's token or the store cannot be used, or this Python cannot search texts.
    """
    plugins = await asyncio.to_thread(_prepared, config)
    secrets = await asyncio.to_thread(Secrets.load, config, environment)
    clock = SystemClock()
    store = await opened_store(config, secrets, clock)
    try:
        if listening and secrets.vault[1:]:
            await store.renew_vault(secrets.vault)
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
            clock=clock,
            environment=environment,
            parts=parts,
            plugins=plugins,
        )
        await app.reloader.open()
        with app.failures.listening():
            try:
                yield app
            finally:
                await app.close()
                await app.chains.anchor()
    finally:
        await store.close()


def _prepared(config: Config) -> Plugins:
    """Make the data directory, and return the plugins. Raises OperatorError: as `open_app`."""
    seed(config.data_dir)
    require_search()
    return load_plugins(config.plugins, config.folder, config.policy.code.rules)
