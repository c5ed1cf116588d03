"""The documentation's site: what Sphinx is told by `docs/site`, and its tests."""
