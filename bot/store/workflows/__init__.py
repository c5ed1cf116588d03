"""The part of the store about workflows."""
