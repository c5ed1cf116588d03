"""The gate: `judge` asks the policy for its parts `requests`, `output`, `calls` and `results`; `gate` runs a tool.

Nobody outside this package asks the policy engine or runs a tool.
"""
