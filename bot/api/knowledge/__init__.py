"""The routes about what the sessions of programs learned."""
