"""Backups: one authenticated file of the store and the data directory, and its return."""
