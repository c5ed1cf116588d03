"""Keeping what people say out of logs: the library logs what it is asked to send."""

import logging


def quiet() -> None:
    """Let the library log warnings only."""
    logging.getLogger("telegram").setLevel(logging.WARNING)
