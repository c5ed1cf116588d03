"""What comes in from platforms and people, up to the moment when it is durable.

`router` authorizes a sender and hands on what they sent: `inbox_writer` takes messages, `command_runner` commands,
`refusals` senders without the right, `flood_limits` those who send too much. `direct_answers` says the answers.
`new_chats` and `memberships` answer to the bot being added somewhere, by `admin_notices`. `bot_loop_guard` keeps two
bots from answering one another.
"""
