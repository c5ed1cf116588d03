"""The adapter for Telegram.

`limits` knows the Bot API's sizes and where a text may be cut, `render` turns the Markdown of an answer into messages.
"""
