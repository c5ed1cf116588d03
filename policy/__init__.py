"""The policy core: labels, requests, rules and decisions, as a pure function of its arguments.

Nothing here does I/O, reads a clock, draws randomness or logs. The engine takes a frozen `Request` and a moment, and
returns a frozen `Decision`; everything that acts on one lives in `bot/gate`. The package re-exports nothing, so that an
import names the module that owns the name.
"""
