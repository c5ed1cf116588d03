"""Schedules and reminders: when they are due, in lines of cron or in words, and the rights to make, see and end them.

`bot.worker.timers` and `bot.worker.schedule_firing` carry out due ones.
"""
