"""Workflows: steps with checkpoints that survive interruption, kept as a log of labelled events."""
