"""`lockgate check`: the configuration was read without a problem; say what is in force."""

from bot.cli.output import print_lines
from bot.config.model import Config


def check(config: Config) -> None:
    """Print what the configuration says, in a few lines."""
    policy = config.policy
    print_lines(
        [
            f"{config.source or 'no config.yaml, the defaults'}: in order",
            f"data in {config.data_dir}, store {config.store.url or 'embedded'}, model {config.model.name}",
            f"policy {policy.digest[:12]}: {len(policy.principals)} principals, {len(policy.channels)} channels, "
            f"{len(policy.recipients)} recipients, {len(policy.folders)} folders, {len(policy.rules)} rules of your own",
        ]
    )
