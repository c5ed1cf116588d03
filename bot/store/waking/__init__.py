"""Waking workers: the queue of sessions that are marked ready."""
