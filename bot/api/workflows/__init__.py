"""The routes about workflows."""
