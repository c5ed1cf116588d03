"""What comes in from platforms and people, up to the moment when it is durable.

`router` takes a message in, or a command; `new_chats` and `memberships` answer to the bot being added somewhere, and
`bot_loop_guard` keeps two bots from answering one another.
"""
