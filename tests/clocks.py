"""How exactly tests compare moments of different clocks."""

from typing import Final

CLOCKS: Final = 1_000
"""Milliseconds by which what is left of a time may differ: a server and a process each look at their clocks first."""
