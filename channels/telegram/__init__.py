"""The adapter for Telegram.

`adapter` is the channel. `poll` asks for updates and `wire` reads them; `crowd` knows who reads where. `letter` makes
the messages that say something, out of `render`, which turns the Markdown of an answer into messages, and `limits`,
which knows the Bot API's sizes and where a text may be cut; `speak` sends them, and `failures` tells what a failed call
means.
"""
