"""The gate: `judge` has the policy decide for `requests`, `output`, `calls` and results; `gate` runs a tool.

`services` is what a running tool may ask, `results` the values that the parts return.

Nobody outside this package asks the policy engine or runs a tool.
"""
