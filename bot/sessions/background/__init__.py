"""Work that continues by itself: tasks that sessions give, runs, and schedules."""
