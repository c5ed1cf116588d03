"""What came from what, for programs."""
