"""Work that goes on by itself: tasks that sessions give, runs, and schedules."""
