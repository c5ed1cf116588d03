"""Lineage: back from an item to all its sources, and forward to everything that was made from it.

It is derived from the references that are stored beside events, deliveries, memories, skills and files
(`bot.sessions.refs`); nothing is written for it. `graph` and `walk` are pure. A reader is shown the items that their
label lets them know; all others are hidden completely (law `no_read_up`).
"""
