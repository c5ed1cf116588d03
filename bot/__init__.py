"""Lockgate's application: the way of one message, and everything around it.

A person writes on a channel. The adapter in `channels/` makes the message a frozen `Inbound`, and the router of
`ingress` identifies the sender: `access/authorize` looks up the account and its role. A command from the table in
`commands/` is answered at once. Any other message is put into its session's inbox, in one atomic step that also notes
the platform's own id of the message. So the platform may be told "received" and may redeliver it without harm.

The `store` marks the session ready. A mark is a hint; a sweep finds sessions that a hint missed. A `worker` claims the
session with a lease and a fencing token, so that of two workers only one can write, and opens a turn (`turn`).

Every message that enters the turn's context gets its label in `access/labelling`, and every result in its tool, from
configuration and runtime facts and never from its content. `admission` lets a message in and fetches its files. The
`gate` decides whether an item may enter, and the session's taint rises to the join of all that did. Then the `agent`
thinks: the model proposes, and each tool call is decided before it runs, written down, run, and its result decided
again. The taint rises before the model sees the result.

The answer passes the gate against the readers of the address (`worker/finish`). Events, taint, usage and the outbox
entry are committed at once, checked against the fence. The outbox of `delivery` decides once more, against the readers
of that moment, and the adapter sends it. A refusal on the way is a value that explains itself, and `/why` shows it.

`worker/turn_runner` reads as that middle part, top to bottom; `app` puts the parts together.
"""
