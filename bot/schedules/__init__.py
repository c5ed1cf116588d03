"""Schedules and reminders: when they are due, in lines of cron or in words, and who may make, see and end them.

What they set off is done by `bot.worker.timers` and `bot.worker.schedule_firing`.
"""
