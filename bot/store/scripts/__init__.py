"""The scripts that run in the store, and `loader`, which writes their texts."""
