"""Commands about people's accounts at MCP servers."""
