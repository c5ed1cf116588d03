"""Knowledge: the memories and skills of sessions, kept and found by label.

Each label of a principal has an index of its own (`bot.knowledge.index`), built from the store and kept current by its
changes (`bot.knowledge.recall`). So a session cannot find a memory above it, and such a memory changes none of its
results.
"""
