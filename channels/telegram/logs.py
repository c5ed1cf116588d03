"""Keeping the token out of logs: it is in every address that is called, and the libraries log those."""

import logging
import re
from typing import Final

# Every logger of theirs that names addresses, so that a filter meets its records: filters are not inherited.
_NAMING: Final = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy", "telegram.Bot")
_TALKATIVE: Final = ("httpcore", "httpx", "telegram")
_TOKEN: Final = re.compile(r"(?<=bot)\d+:[\w-]+")


def quiet() -> None:
    """Let the libraries log warnings only, and no token if somebody lets them log more."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _NAMING:
        logger = logging.getLogger(name)
        if not any(isinstance(one, _Redaction) for one in logger.filters):
            logger.addFilter(_Redaction())


class _Redaction(logging.Filter):
    """Takes tokens out of what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything pass, without its tokens."""
        record.msg, record.args = _TOKEN.sub("<token>", record.getMessage()), None
        return True
