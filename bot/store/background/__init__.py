"""The store's parts for background work: tasks of sessions, runs, and schedules."""
