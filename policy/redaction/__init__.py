"""Redaction: patterns, the checks of their matches, and the text without them."""
