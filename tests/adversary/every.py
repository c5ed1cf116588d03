"""All worlds, of every file."""

from typing import Final

from tests.adversary import fewer_questions, worlds

WORLDS: Final = (*worlds.WORLDS, *fewer_questions.WORLDS)
"""All worlds in which the adversary must find nothing."""

PLANTED: Final = (*worlds.PLANTED, *fewer_questions.PLANTED)
"""All worlds with a weakness that it must find."""
