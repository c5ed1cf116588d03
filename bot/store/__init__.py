"""The store: durable sessions, wake-ups, outbox and audit chains on the Redis protocol, one implementation.

`opening` opens a store. `schema` lists all keys, `records/` the records under them, `scripts/` the atomic changes,
`calls` the calls of scripts. `connection` runs requests at the servers that `servers/` reaches: one server, the one
that Sentinels know, or a Cluster. Only these import redis. They are loaded when a store is opened and not before: it
takes a quarter of a second, which a command without a store need not spend.
"""
