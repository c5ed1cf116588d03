"""The servers of a store, and the connection to them.

`connection` decides how often a command is tried; `address` reads the store's address. `server` is one server,
`sentinel` finds one, `cluster` has several. `shared_connection` is the connection that all requests to one server
share. `embedded_server` starts a server of our own, and `janitor` ends it when no process uses it.
"""
