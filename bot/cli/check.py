"""`lockgate check`: the configuration was read without a problem; say what is in force."""

from bot.cli.output import print_lines
from bot.config.model import Config


def check(config: Config) -> None:
    """Print what the configuration says, in a few lines."""
    policy = config.policy
    counts = ", ".join(
        f"{len(entries)} {name}"
        for name, entries in (
            ("principals", policy.principals),
            ("channels", policy.channels),
            ("recipients", policy.recipients),
            ("folders", policy.folders),
            ("rules of your own", policy.rules),
        )
    )
    store = "embedded" if config.store.url is None else "at an address of its own"
    print_lines(
        [
            f"{config.source or 'no config.yaml, the defaults'}: in order",
            f"data in {config.data_dir}, store {store}, model {config.model.name}",
            f"policy {policy.digest[:12]}: {counts}",
        ]
    )
