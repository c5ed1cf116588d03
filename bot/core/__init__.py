"""The base of all other packages, with no dependency on them: clock, ids, errors, logs, rates.

`faults` tells why a server did not answer over HTTP, `invisible` finds invisible characters.
"""
