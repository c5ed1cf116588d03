"""Runs and schedules over the HTTP API: their routes and documents."""
