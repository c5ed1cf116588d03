"""Commands for runs and schedules."""
