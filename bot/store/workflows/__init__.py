"""The part of the store for workflows."""
