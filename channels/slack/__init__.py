"""The Slack adapter.

`transport` is how events reach it, over sockets or by requests, and `events` reads them, without sending or waiting.
`adapter` hands them on; `sender` sends texts, as the messages that `render` makes of them, by the calls of `web_api`.
"""
