"""The store's parts for knowledge of sessions: memories and skills."""
