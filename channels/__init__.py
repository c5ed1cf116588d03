"""Adapters to the places where people are.

An adapter turns a platform's updates into `Inbound` values and sends `Outbound` values. It knows
neither bot nor policy nor another adapter: what it needs of them it receives as values and ports.
"""
