"""How a secret is referred to, as `${secret:NAME}`: by a model in an argument, by config.yaml in a server's entry."""

import re
from typing import Final

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""The form of a secret's name."""

REFERENCE: Final = re.compile(r"\$\{secret:(" + NAME.pattern + r")\}")

OPENING: Final = "${secret:"


def references(text: str) -> tuple[str, ...]:
    """Return the names of the secrets that a text refers to, each once."""
    return tuple(dict.fromkeys(REFERENCE.findall(text)))
