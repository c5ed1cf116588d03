"""Looking at the configured models and the transcriber, as far as that goes without asking one."""

import os

from bot.config.model import OFFLINE, Config


def make_models(config: Config) -> None:
    """Make the configured models and let them go, and look for the transcriber's key.

    Raises ConfigError: a provider is unknown, its package is not installed, or a key is missing.
    """
    if config.model.chain != (OFFLINE,):
        from bot.agent.providers import seats

        seats(config.model, os.environ)
    if config.transcriber is not None:
        from bot.intake.transcriber import key

        key(config.transcriber, os.environ)


def uncleared(config: Config) -> tuple[str, ...]:
    """Return the models that nobody said a clearance of; they may read PUBLIC alone."""
    return tuple(name for name in config.model.chain if name not in config.policy.models)


def unheard(config: Config) -> tuple[str, ...]:
    """Return the transcriber if nobody said a clearance of it; it may hear PUBLIC alone."""
    named = () if config.transcriber is None else (config.transcriber.model,)
    return tuple(name for name in named if name not in config.policy.transcribers)
