"""Shapes of values as config.yaml describes them: each one is checked when it is read, and again by every value."""
