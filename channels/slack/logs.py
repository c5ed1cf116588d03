"""Keeping tokens out of logs: they are in headers and in the addresses of sockets, and the libraries log both."""

import logging
import re
from typing import Final

_SECRET: Final = re.compile(r"\b(?:xox[a-z]|xoxe\.xox[a-z]|xapp)-[\w.-]+|(?<=ticket=)[\w-]+|(?<=/response/)\S+")
_HOOK: Final = re.compile(r"(?<=hooks\.slack\.com/)[^\s\"']+")


def logger() -> logging.Logger:
    """Return the logger for everything of the libraries: warnings only, and no token if somebody lets it log more."""
    made = logging.getLogger("slack")
    if made.level == logging.NOTSET:
        made.setLevel(logging.WARNING)
    if not any(isinstance(one, _Redaction) for one in made.filters):
        made.addFilter(_Redaction())
    return made


class _Redaction(logging.Filter):
    """Takes tokens out of what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything pass, without its tokens and without what the libraries say of an error."""
        told = _HOOK.sub("<hook>", _SECRET.sub("<token>", record.getMessage()))
        record.msg, record.args, record.exc_info = told, None, None
        return True
