"""Losses of the store: how they are found and noted."""
