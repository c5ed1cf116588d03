"""The inbox beside the sessions: its order, and texts that were observed."""
