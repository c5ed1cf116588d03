"""What people and programs do with runs and schedules, without words of a channel."""
