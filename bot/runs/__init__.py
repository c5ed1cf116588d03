"""Runs: sessions whose loop the runtime drives.

`starter` makes them, `loop` decides at the end of each turn whether and how they go on, and `breaker` pauses one that
fails again and again. `bot.sessions.background.runs` defines them.
"""
