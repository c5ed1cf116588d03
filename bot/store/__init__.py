"""The store: durable sessions, wake-ups, outbox and audit chains on the Redis protocol, one implementation.

`opening` is the way in. `keys` holds the schema, `scripts/` the atomic changes, `wire` the form of records,
`supervisor` the embedded server. `link` alone imports redis, and is loaded when a store is opened and not before:
it costs a quarter of a second, which a command that needs no store shall not pay.
"""
