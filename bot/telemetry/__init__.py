"""Traces of turns for operators: which of them may be sent, and sending those by OTLP.

A sink of telemetry is a sink like any other (law `no_write_down`): it has a clearance, and gets nothing of a session
above that. See ADR 0034.
"""
