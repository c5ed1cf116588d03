"""`lockgate keys`: the keys of an installation, another audit or session key, and the end of older audit keys."""

from typing import TYPE_CHECKING, Final

from bot.api.mcp_server.kept_taints import unknown_taint
from bot.cli.identity import as_owner
from bot.cli.output import print_json, print_lines, table
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.operations.adoption import KeyAdopter
from bot.operations.keys import SESSION, VAULT
from bot.sessions.installation.keys import KeyUse

if TYPE_CHECKING:
    from bot.app.app import App

ROTATED: Final = "the audit key {} signs now; processes on this data directory follow within 20 seconds"
ELSEWHERE: Final = "processes with another data directory stop serving until you copy `keys` there"
THEN: Final = "then run `lockgate keys retire audit`, and copy `keys` to where you keep it"
NAMES: Final = (
    "the session key {} names new conversations now; processes on this data directory follow within 20 seconds"
)
KEEP: Final = (
    "earlier conversations are found by `keys/session.old`: copy `keys` to where you keep it, and take a backup"
)
ADOPTED: Final = "the installation uses the audit key {}, the session key {} and the vault key {} now"
OTHERS: Final = "copy `keys` to the other data directories before you start processes there"
LOST: Final = "{} values of adapters are deleted, as no key opens them: install workspaces and connect accounts again"
UNVOUCHED: Final = "accounts that were seen there are forgotten, so vouch again for the members of {}"
RETIRED: Final = "retired: {}; {} chains keep the rows that these keys signed"
UNKNOWN: Final = "exports that they signed are unknown now; to trust them still, add to `imports.keys`: {}"


async def listed(config: Config, *, as_json: bool) -> None:
    """Print all keys by their names. Raises OperatorError."""
    async with as_owner(config, looking=True) as (app, _):
        found = await app.key_keeper().listed()
    if as_json:
        print_json([{"use": one.use, "name": one.name, "state": one.state.value} for one in found])
        return
    print_lines(table([("key", "name", "state"), *((one.use, one.name, one.state.value) for one in found)]))


async def rotate(config: Config, use: str) -> None:
    """Put another audit or session key in force. Raises OperatorError: it is not in a file, or is that of the vault."""
    if use == VAULT:
        raise OperatorError(
            "the vault key is changed by hand",
            next_step="move `keys/vault` to `keys/vault.old`, and restart every process, see docs/operating.md",
        )
    async with as_owner(config) as (app, caller):
        keeper, of_sessions = app.key_keeper(), use == SESSION
        made = await (keeper.rotate_session if of_sessions else keeper.rotate)(caller.principal)
    told, then = (NAMES, KEEP) if of_sessions else (ROTATED, THEN)
    print_lines([told.format(made.name), ELSEWHERE, then])


async def adopt(config: Config) -> None:
    """Make the keys here those of the installation. Raises OperatorError: they cannot be read, or processes work."""
    async with as_owner(config, with_any_keys=True) as (app, caller):
        adopted = await key_adopter(app).adopt(caller.principal)
    print_lines([ADOPTED.format(*(adopted.keys.of(use)[0] for use in KeyUse)), OTHERS])
    print_lines([LOST.format(adopted.lost)] if adopted.lost else [])
    print_lines([UNVOUCHED.format(", ".join(adopted.unvouched))] if adopted.unvouched else [])


def key_adopter(app: "App") -> KeyAdopter:
    """Return the part that makes the keys of an application those of its installation."""
    return KeyAdopter(
        store=app.store,
        keys=app.shared_keys,
        vault=app.vault(),
        reloader=app.reloader,
        document=lambda: app.gate.document,
        instead=lambda name: unknown_taint(name, app.gate.document.top),
    )


async def retire(config: Config, use: str) -> None:
    """Retire the older audit keys. Raises OperatorError: there is none, one may still sign, or the use is another."""
    if use == SESSION:
        raise OperatorError(
            "an older session key finds the conversations that began under it, so it is not retired",
            next_step="keep `keys/session.old`",
        )
    if use == VAULT:
        raise OperatorError(
            "an older vault key is retired by hand",
            next_step="delete `keys/vault.old` once `lockgate run` has begun with the new key, see docs/operating.md",
        )
    async with as_owner(config) as (app, caller):
        done = await app.key_keeper().retire(caller.principal)
    print_lines([RETIRED.format(", ".join(done.names), done.chains)])
    print_lines(UNKNOWN.format(key) for key in done.public)
