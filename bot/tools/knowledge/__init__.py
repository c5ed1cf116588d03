"""Tools by which agents learn, and find what was learned."""
