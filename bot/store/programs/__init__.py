"""What the store does for programs: it keeps who they are, what they are sent, and it tells what changed."""
