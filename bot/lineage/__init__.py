"""Lineage: back from something to all that it came from, and forward to all that came of it.

It is told from the references that are stored beside events, deliveries, memories, skills and files
(`bot.sessions.refs`); nothing is written for it. `graph` and `walk` are pure. A reader is told what their label lets
them know, and the rest is as if it were not there (law `no_read_up`).
"""
