"""The operations of people and programs on runs and schedules, without words of a channel."""
