"""Drafts of a server's entry for config.yaml, made from the server's own list, for a person to review.

`shapes` turns schemas into descriptions of arguments, `document` writes the YAML, and `differences` compares a listing
with the configuration. All of it is pure, and every word of a server is data here (ADR 0009).
"""
