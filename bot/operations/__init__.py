"""The operations of an installation, for the command line and chats: each once.

An operation returns data, and lines for people where both say the same.
"""
