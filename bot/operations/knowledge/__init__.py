"""The operations of people and programs on knowledge."""
