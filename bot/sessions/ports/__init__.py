"""The interface of the store that all other packages use: one port for each part of it, and `store` for the whole."""
