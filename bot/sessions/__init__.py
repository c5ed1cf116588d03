"""Sessions as values: their records, the allowed changes of their status, and the ports of their store.

No Redis here and no I/O: `bot/store` implements the port, everything else depends on these values.
"""
