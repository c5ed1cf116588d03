"""Knowledge: what sessions have learned, kept and found by label.

Each label of a principal has an index of its own (`bot.knowledge.index`), built from the store and kept true by what
changed there (`bot.knowledge.recall`): what is above a session can neither be found by it nor change what it finds.
"""
