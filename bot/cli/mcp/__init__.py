"""`lockgate mcp`: Lockgate as an MCP server of one agent."""
