"""What the store does for programs that use the HTTP API: it keeps who they are, and tells what changed."""
