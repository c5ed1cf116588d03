"""The Telegram adapter.

`updates` reads what Telegram tells, without sending or waiting; `adapter` listens, by `polling` or by a `webhook`, and
hands on; `sender` says things, as the messages that `render` makes of them.
"""
