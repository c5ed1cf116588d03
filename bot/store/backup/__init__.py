"""Copies of the store's keys for a backup, and their return into an empty store."""
