"""Ingress: inputs from platforms and people, up to the moment when they are durable.

`router` authorizes a sender and hands the input on: `inbox_writer` takes messages, `command_runner` commands,
`refusals` inputs of unauthorized senders, `flood_limits` those beyond a limit. `direct_answers` sends the answers.
`new_chats` and `memberships` react to the bot or people joining chats, by `admin_notices`. `bot_loop_guard` keeps two
bots from answering one another.
"""
