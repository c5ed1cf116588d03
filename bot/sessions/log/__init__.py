"""The log of a session: the types of events, an event with its place, and how it is written."""
