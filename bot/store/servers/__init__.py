"""The servers of a store: `address` tells which; `server` is one, `sentinel` finds one, `cluster` has several."""
