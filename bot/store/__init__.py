"""The store: durable sessions, wake-ups, outbox and audit chains on the Redis protocol, one implementation.

`opening` is the way in. `schema` tells all keys, `records` what stands under them, `scripts/` the atomic changes,
`codec` how values are made of records, `calls` how a script is asked. `embedded_server` starts the embedded server.
`connection` alone imports redis, and is loaded when a store is opened and not before: it costs a quarter of a second,
which a command that needs no store shall not pay.
"""
