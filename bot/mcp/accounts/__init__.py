"""Accounts at MCP servers that ask for OAuth: whose is used for a call, and how it is connected.

`records` are the stored values and `store` keeps them in the vault. `authorization` speaks with a server's issuer, and
is imported when one is asked. `tokens` returns a token that counts, renewed by one process of all. `connecting` is the
way from a link to an account, `returns` the page where people come back. No token leaves this room but to the hosts
that the configuration names (ADR 0055).
"""
