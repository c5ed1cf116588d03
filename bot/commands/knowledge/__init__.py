"""Commands about knowledge."""
