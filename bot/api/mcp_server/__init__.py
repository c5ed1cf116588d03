"""Lockgate as an MCP server: other agents get session tools, knowledge and runs, with a token as principal (ADR 0048).

`protocol`, `endpoint` and `stdio` import the library for MCP, when a process begins to serve it.
"""
