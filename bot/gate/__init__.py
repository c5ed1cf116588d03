"""The gate, in layers: `requests` what all share, `output` what leaves, `calls` what a call would be, `gate` runs it.

Nobody outside this package asks the policy engine or runs a tool.
"""
