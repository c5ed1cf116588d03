"""The store's parts for what sessions have learned."""
