"""`python -m tests.conventions.commit_message FILE`: print what is wrong with a commit's message; exit 1 then.

The subject has at most 60 characters, begins with a capital and ends without a full stop. An empty line follows it. So
a list of subjects reads as a list of changes. Git's own comments, and subjects that git writes, are left alone.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LONGEST: Final = 60
"""Characters of a subject."""

_BY_GIT: Final = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")


def wrong(message: str) -> Iterator[str]:
    """Yield each thing that is wrong with a message, in words."""
    rows = [row for row in message.splitlines() if not row.startswith("#")]
    subject = next(iter(rows), "")
    if not subject.strip():
        yield "the message has no subject"
    elif not subject.startswith(_BY_GIT):
        if len(subject) > LONGEST:
            yield f"the subject has {len(subject)} characters, {LONGEST} are the most"
        if not subject[0].isupper() or subject.endswith("."):
            yield "a subject begins with a capital and ends without a full stop"
        if rows[1:] and rows[1].strip():
            yield "an empty line is missing below the subject"


if __name__ == "__main__":
    found = list(wrong(Path(sys.argv[1]).read_text("utf-8")))
    print(*found, sep="\n")
    sys.exit(1 if found else 0)
