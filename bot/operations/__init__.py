"""What people ask of an installation, at the command line and in a chat: each operation once.

An operation returns data, and lines for people where both say the same.
"""
