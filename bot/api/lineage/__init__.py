"""Lineage for programs."""
