"""Sessions as values: what one is, how its status may move, and the port its store implements.

No Redis here and no I/O: `bot/store` implements the port, everything else depends on these values.
"""
