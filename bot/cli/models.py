"""Looking at the configured models, as far as that goes without asking one."""

import os

from bot.config.model import OFFLINE, Config


def make_models(config: Config) -> None:
    """Make the configured models and let them go.

    Raises ConfigError: a provider is unknown, its package is not installed, or its key is missing.
    """
    if config.model.chain != (OFFLINE,):
        from bot.agent.providers import seats

        seats(config.model, os.environ)


def uncleared(config: Config) -> tuple[str, ...]:
    """Return the models that nobody said a clearance of; they may read PUBLIC alone."""
    return tuple(name for name in config.model.chain if name not in config.policy.models)
