"""Tools by which agents learn memories, and find them."""
