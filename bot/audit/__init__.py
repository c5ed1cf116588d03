"""The audit: `chain` links and checks its records, `anchors` proves them to others.

`visibility` tells which of them a reader may see, `rendering` shows one.
"""
