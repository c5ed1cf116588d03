"""Where the operational log of a command goes: standard error, for people at a terminal and as JSON elsewhere."""

import os
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.core.logs import LogLevel, Scrub, Write, logging_to
from bot.secrets import SHORTEST, GrantedSecret, Keyring

_SECRET: Final = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"(?<=://)[^\s/@]+(?=@)")


@contextmanager
def logged(config: Config, level: LogLevel | None, write: Write | None = None) -> Generator[None]:
    """Write the log of a block to standard error, or by `write` where that is a terminal's.

    `level` is the log level of the command line, None for the configured one.
    """
    readable = sys.stderr.isatty()
    out = write if write is not None and readable else _write
    environment = dict(os.environ)
    with logging_to(out, level or config.logs.level, lambda: _scrub(config, environment), readable=readable):
        yield


def scrubbing(config: Config) -> Scrub:
    """Return the function that takes secrets out of each line of the log; it blocks."""
    return _scrub(config, dict(os.environ))


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _scrub(config: Config, environment: Mapping[str, str]) -> Scrub:
    """Return the scrubber of secrets: those of the configuration and the environment, and texts that look like one.

    It blocks.
    """
    from policy.redaction.patterns import SECRET
    from policy.redaction.redactor import Redactor

    keyring, redactor = Keyring(), Redactor()
    with suppress(OperatorError):
        # The command that opens the application tells what cannot be read.
        keyring = Keyring.load(config.secrets, environment, config.folder)
    others = Keyring(
        {name: GrantedSecret(value, frozenset(), frozenset()) for name, value in _values(config, environment)}
    )

    def scrub(text: str) -> str:
        return redactor.redact(_PASSWORD.sub("[secret]", others.scrub(keyring.scrub(text))), (SECRET,))

    return scrub


def _values(config: Config, environment: Mapping[str, str]) -> Generator[tuple[str, str]]:
    """Yield the variables that hold secrets: those that the configuration names, and those that are called so."""
    named = {said.key for said in config.model.providers.values()}
    telegram, slack = config.channels.telegram, config.channels.slack
    if telegram is not None:
        named |= {telegram.token, None if telegram.webhook is None else telegram.webhook.secret}
    if slack is not None:
        named |= {slack.token, slack.app_token, None if slack.http is None else slack.http.secret}
        named |= {None if slack.install is None else slack.install.client_secret}
    named |= {None if config.transcriber is None else config.transcriber.key}
    for name, value in environment.items():
        if (name in named or _SECRET.search(name)) and len(value) >= SHORTEST:
            yield name, value
