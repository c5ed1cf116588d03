"""The content of a session's log: `event_log` makes its events, `folds` sum up those of a generation.

`recall` reads a turn's knowledge of its generation, from the newest recap on.
"""
