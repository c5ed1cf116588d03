"""What people and programs do with what was learned."""
