"""The servers of a store, and the connection to them.

`connection` says how often a command is tried; `address` tells where it goes: `server` is one server, `sentinel` finds
one, `cluster` has several. `shared_connection` is what all exchanges with one share. `embedded_server` starts one of
our own, and `janitor` ends it when nobody uses it.
"""
