"""The gate: `judge` gets decisions on `requests`, `output`, `calls` and results; `gate` runs tools.

`services` are the services of a running tool, `results` the values that the parts return.

No code outside this package asks the policy engine or runs a tool.
"""
