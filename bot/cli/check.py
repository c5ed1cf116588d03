"""`lockgate check`: the configuration was read without a problem; say what is in force."""

import os

from bot.cli.output import print_lines
from bot.cli.servers import not_there, weak
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.diagnostics import make_models, read_secrets, uncleared, unheard
from bot.mcp.servers import check_library


def check(config: Config) -> None:
    """Print what the configuration says, in a few lines.

    Raises OperatorError: the value of a secret or the command of an MCP server is not there, or a configured model
    cannot be used.
    """
    read_secrets(config, os.environ)
    make_models(config, os.environ)
    check_library(config.mcp_servers)
    absent = next(not_there(config, os.environ), None)
    if absent is not None:
        raise OperatorError(f"MCP server {absent.server}: {absent.problem}", next_step=absent.next_step)
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
    bare = [f"model {name} may read PUBLIC alone, until `policy.models` says more" for name in uncleared(config)]
    bare += [
        f"transcriber {name} may hear PUBLIC alone, until `policy.transcribers` says more" for name in unheard(config)
    ]
    doubtful = [f"MCP server {seen.server}: {seen.problem}, {seen.next_step}" for seen in weak(config)]
    servers = f", {len(config.mcp_servers)} MCP servers" if config.mcp_servers else ""
    print_lines(
        [
            f"{config.source or 'no config.yaml, the defaults'}: in order",
            f"data in {config.data_dir}, store {store}, model {', then '.join(config.model.chain)}",
            *bare,
            *doubtful,
            f"policy {policy.digest[:12]}: {counts}, {len(config.secrets)} secrets{servers}",
        ]
    )
