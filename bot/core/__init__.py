"""What everything else uses, and uses nothing of ours: clock, ids, errors, logs, rates.

`faults` tells why a server that was asked over HTTP did not answer, `invisible` finds characters that nobody sees.
"""
