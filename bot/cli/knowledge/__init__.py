"""Commands of an operator about what was learned."""
