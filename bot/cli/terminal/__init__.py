"""The terminal of `lockgate chat`: its lines, its greeting and prompt, and its view of a session at work."""
