"""Values about the store of an installation: its clocks, the names of its keys, and losses of its servers."""
