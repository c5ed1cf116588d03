"""Traces of turns for operators: what may be told of them, and sending that by OTLP.

A sink of telemetry is a sink like any other (law `no_write_down`): it has a clearance, and is told nothing of a session
above that. See ADR 0034.
"""
