"""The store: durable sessions, wake-ups, outbox and audit chains on the Redis protocol, one implementation.

`opening` is the way in. `schema` tells all keys, `records/` what stands under them, `scripts/` the atomic changes,
`calls` how a script is asked. `connection` runs what the others ask for at the servers that `servers/` reaches: one,
the one that Sentinels know, or a Cluster. These alone import redis, and are loaded when a store is opened and not
before: it costs a quarter of a second, which a command that needs no store shall not pay.
"""
