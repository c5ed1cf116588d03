"""Commands about what was learned."""
