"""Slash commands: one table for every channel; the router runs them, the outbox says their answers."""
