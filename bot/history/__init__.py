"""What the log of a session tells: `event_log` makes its events, `folds` say what those of a generation come to.

`recall` reads what a turn has to know of its generation, from the newest recap on.
"""
