"""The store's parts for work that goes on by itself: tasks that sessions give, runs, and schedules."""
