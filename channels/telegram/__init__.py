"""The Telegram adapter.

`updates` reads Telegram's updates, without sending or waiting; `adapter` listens, by `polling` or by a `webhook`, and
hands on. `sender` sends texts, as the messages that `render` makes of them.
"""
