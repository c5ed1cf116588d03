"""What the store keeps for programs that use the HTTP API."""
