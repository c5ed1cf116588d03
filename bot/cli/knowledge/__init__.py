"""Commands of an operator about knowledge."""
