"""The servers of a store: `address` tells which; `server` is one, `sentinel` finds one, `cluster` has several.

`embedded_server` starts one of our own, and `janitor` ends it when nobody uses it.
"""
