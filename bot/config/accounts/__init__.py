"""Accounts at MCP servers: `mcp_servers.NAME.oauth`, and `mcp_accounts:`, where people come back to."""
